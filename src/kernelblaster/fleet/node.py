"""Start and stop the node of a fleet on this machine: the processes of Ray."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from kernelblaster.errors import KernelBlasterError
from kernelblaster.fleet.address import CLIENT_PORT, HEAD_PORT, is_loopback
from kernelblaster.fleet.local_fleet import machines_here
from kernelblaster.fleet.node_file import NodeFile, node_path, read_node, started_at, write_node
from kernelblaster.fleet.token import make_token, read_token, token_file
from kernelblaster.settings import ray_environment, use_fleet_token

START_S = 120.0
END_S = 3.0  # seconds for Ray to end by itself: time enough to tell the other nodes
PAUSE_S = 0.1
STORE_BYTES = 200 << 20  # compiled candidates pass through it, each some 100 kB
LOG = "start.log"
STARTED = "Ray runtime started"


@dataclass(frozen=True)
class NodePlan:
    """The node to start on this machine. `join` is the head (HOST:PORT) of the fleet that it joins; None: it
    becomes the head of a new fleet. `host` is the address of this machine under which others reach it; `port`
    is for other nodes, `client_port` for commands. `token` is the file of the fleet's token (None: the user's
    own). `machines` is how many PTX machines (emulators) the node offers (None: one for every two cores),
    `cores` how many cores compilers may use (None: all)."""

    join: str | None = None
    host: str = "127.0.0.1"
    port: int = HEAD_PORT
    client_port: int = CLIENT_PORT
    token: Path | None = None
    machines: int | None = None
    cores: int | None = None


def start_node(plan: NodePlan) -> NodeFile:
    """Starts the node that `plan` describes, waits until it runs, and returns its record. Raises
    KernelBlasterError if one runs already, Ray is missing or does not start, others could reach it without a
    token, or if the fleet that the node is to join does not answer or refuses the token."""
    if find_spec("ray") is None:
        raise KernelBlasterError("a fleet needs Ray: pip install 'kernelblaster[fleet]'.")
    running = read_node()
    if running is not None:
        raise KernelBlasterError(
            f"a node runs here already (process {running.pid}, fleet {running.address}); end it with "
            "`kernelblaster fleet stop`."
        )
    token = _token(plan)
    use_fleet_token(read_token(token))
    if plan.join is not None:
        from kernelblaster.fleet.ray_session import check_cluster  # imports Ray, which reads the token

        check_cluster(plan.join, read_token(token))
    folder = Path(tempfile.mkdtemp(prefix="kb-"))  # short: the names of sockets are limited
    log = folder / LOG
    with log.open("wb") as output:
        process = subprocess.Popen(
            _command(plan, folder),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=ray_environment(),
            start_new_session=True,
        )
    _wait_until_started(process, log)
    started = started_at(process.pid)
    assert started is not None
    node = NodeFile(
        pid=process.pid,
        started=started,
        address=plan.join or f"{plan.host}:{plan.port}",
        token=str(token),
        folder=str(folder),
    )
    write_node(node)
    return node


def stop_node() -> bool:
    """End the node of this user on this machine with all its processes, and remove its temporary files;
    returns whether there was one."""
    node = read_node()
    if node is None:
        node_path().unlink(missing_ok=True)
        return False
    os.kill(node.pid, signal.SIGTERM)
    until = time.monotonic() + END_S
    while members := _session(node.pid):
        if time.monotonic() > until:
            for pid in members:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        time.sleep(PAUSE_S)
    node_path().unlink(missing_ok=True)
    shutil.rmtree(node.folder, ignore_errors=True)
    return True


def _session(leader: int) -> list[int]:
    """The ids of all live processes in the Unix session whose leader is the process `leader`, itself
    included."""
    members = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, _, _, session, *_ = path.read_text().rpartition(")")[2].split()
            if int(session) == leader and state != "Z":
                members.append(int(path.parent.name))
    return members


def _token(plan: NodePlan) -> Path:
    """The file of the fleet's token, a shared secret, as `plan` names it. It is made if it is missing and
    only this machine is to reach the fleet; otherwise raises KernelBlasterError if it is missing. Even then
    it is needed, because Ray listens on all interfaces of a machine whatever it is told."""
    path = token_file(plan.token)
    alone = plan.join is None and is_loopback(plan.host)
    if read_token(path) is None and alone:
        make_token(path)
    if read_token(path) is None:
        raise KernelBlasterError(
            f"{path}: there is no token, and a fleet that others can reach needs one. Make it with "
            "`kernelblaster fleet token` on the first machine, and copy the file to the others."
        )
    return path


def _command(plan: NodePlan, folder: Path) -> list[str]:
    """The command line that starts Ray on this machine as `plan` says, with temporary files in `folder`; it
    stays in the foreground and ends Ray's processes when it is ended."""
    machines = machines_here() if plan.machines is None else plan.machines
    command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", "--disable-usage-stats"]
    command += [f"--node-ip-address={plan.host}", f"--object-store-memory={STORE_BYTES}"]
    command += [f"--resources={json.dumps({'ptx_machine': machines})}", "--log-style=record"]
    command += [] if plan.cores is None else [f"--num-cpus={plan.cores}"]
    command += [f"--temp-dir={folder}"]
    if plan.join is not None:
        return [*command, f"--address={plan.join}"]
    command += ["--head", f"--port={plan.port}", f"--ray-client-server-port={plan.client_port}"]
    return [*command, "--include-dashboard=false"]


def _wait_until_started(process: "subprocess.Popen[bytes]", log: Path) -> None:
    """Waits until Ray's `process` writes to `log` that it runs. Raises KernelBlasterError if it ends, or
    takes longer than START_S seconds; what it wrote is in the message."""
    until = time.monotonic() + START_S
    while STARTED not in (said := log.read_text(errors="replace")):
        if process.poll() is not None or time.monotonic() > until:
            process.kill()
            last = [line for line in said.splitlines() if line.strip()][-1:] or ["it said nothing"]
            raise KernelBlasterError(f"Ray did not start: {last[0]} ({log})")
        time.sleep(PAUSE_S)
