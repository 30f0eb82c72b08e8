"""What a task file that wants out can reach: 170 things at each of six places where code of a task runs.

python benchmarks/hostile_task.py [--user 1000] [--command evaluate] [--out results/hostile-task.md] (as
root)

A home folder with keys, processes, sockets and shared memory are made for it, in namespaces of their own
(mounts, processes), so that nothing outside can be hit. Everything must be refused, nothing in the home
folder may change, no socket may hear anything, and what was planted (keys in files, in the environment, in
arguments, in the memory of other processes) may be in no output and no file of the command."""

import argparse
import collections
import contextlib
import json
import os
import pickle
import pty
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from publish import publish
from small_container import MS_BIND, MS_PRIVATE, MS_REC, mount

from kernelblaster.devices.native_build import recorder_executable
from kernelblaster.devices.toolchain import toolchain
from kernelblaster.settings import settings

ROOT = Path(__file__).parents[1]
TASK = Path(__file__).parent / "hostile_task"
LIMIT_S = 900
KEY, PASSWORD, IN_FILE, OF_SHELL, IN_MEMORY = (
    f"planted-{name}-{os.urandom(8).hex()}" for name in ("key", "password", "file", "shell", "memory")
)
PLANTED = (KEY, PASSWORD, IN_FILE, OF_SHELL, IN_MEMORY)
COMMANDS = {
    "check": ["tasks", "check", "task.py"],
    "evaluate": ["evaluate", "task.py", "relu.cu", "--device", "emulated"],
    "optimize": ["optimize", "task.py", "--device", "emulated", "--budget", "1"],
    "bench": ["bench", "task.py", "--device", "emulated", "--budget", "1", "--workers", "1"],
    "emulate": ["emulate", "task.py", "relu.cu"],
}
RELU = """
__global__ void relu(float* y, const float* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] < 0.0f ? 0.0f : x[i];
}
extern "C" void launch_gpu_implementation(float* y, const float* x, int64_t a, int64_t b, cudaStream_t s) {
  relu<<<(a * b + 255) / 256, 256, 0, s>>>(y, x, a * b);
}
"""
SHELL = "import sys, time; kept = sys.argv[1] + '-in-memory'; print('ready', flush=True); time.sleep(10000)"


class Evil:
    """A pickle that opens a file when it is read."""

    def __init__(self, path: Path) -> None:
        self._path = str(path)

    def __reduce__(self):
        return (open, (self._path, "rb"))


LEFT_OUT = shutil.ignore_patterns(".scratch-*")  # of builds that others are at
DAEMON = b"98765.4"  # seconds that the process sleeps which the task leaves


class World:
    """What is there to be reached: a home folder, and listening sockets and processes of the same user."""

    def __init__(self, folder: Path, user: int) -> None:
        self.home = folder / "home"
        self.heard: list[str] = []
        self._kept: list[object] = []
        self._fill(user)

    def _fill(self, user: int) -> None:
        home = self.home
        project, elsewhere, older = (
            home / "project",
            home / "elsewhere",
            home / "data/runs/20200101-000000-abcdef",
        )
        for made in (
            ".ssh",
            ".aws",
            ".config/autostart",
            "empty",
            "project/.git/hooks",
            "tmp",
            "project/service/.ssh",
        ):
            (home / made).mkdir(parents=True)
        for made in (elsewhere, older, home / "cache/exported", home / "cache/tasks/other/candidate"):
            made.mkdir(parents=True)
        files = (".ssh/id_ed25519", ".aws/credentials", ".bash_history", ".bashrc", "project/.env")
        files += ("project/service/.env", "project/service/.ssh/id")
        files += (
            "project/.git/config",
            "elsewhere/secret.txt",
            "cache/tasks/other/candidate/x",
            "knowledge.db",
        )
        for name in (*files, f"{older.relative_to(home)}/events.jsonl"):
            (home / name).write_text(f"# {IN_FILE}\n")
        (elsewhere / "planted_module.py").write_text(f"secret = '{IN_FILE}'\n")
        other = home.parent / "other.txt"
        other.write_text(IN_FILE)
        (project / "task.py").write_text((TASK / "task.py").read_text().replace("@HERE@", str(project)))
        shutil.copy(TASK / "probes.txt", project / "probes.txt")
        (project / "relu.cu").write_text(RELU)
        (project / "link").symlink_to(home / ".ssh/id_ed25519")
        (project / "linked").symlink_to(home / ".ssh")
        (project / "evil.pt").write_bytes(pickle.dumps(Evil(home / ".ssh/id_ed25519")))
        for kind in ("ptx", "native"):
            (home.parent / "built" / kind).rename(home / "cache" / kind)
        recorder = next((home / "cache/native").glob("*/*/recorder"))
        shared = Path("/dev/shm/planted")
        shared.write_text(IN_FILE)
        subprocess.run(["chown", "-R", f"{user}:{user}", str(home), str(shared)], check=True)
        other.chmod(0o600)
        os.chown(other, 54321, 54321)
        self.facts = {
            "home": str(home),
            "elsewhere": str(elsewhere),
            "other": str(other),
            "older": str(older),
            "knowledge": str(home / "knowledge.db"),
            "cache": str(home / "cache"),
            "cached": str(home / "cache/tasks/other"),
            "recorder": str(recorder),
            "packages": next(path for path in sys.path if path.endswith("site-packages")),
            "package": str(ROOT / "src/kernelblaster"),
            "suites": str(ROOT / "suites"),
            "nvcc": toolchain().nvcc,
            "shared": str(shared),
            "driver": os.getpid(),
            "tmp": str(home / "tmp"),
            "backwards": [text.encode()[::-1].hex() for text in PLANTED],
        }

    def listen(self) -> None:
        """Open the sockets; whatever comes is written down."""
        name = f"planted-{os.getpid()}"
        sockets = {
            "tcp": socket.create_server(("127.0.0.1", 0)),
            "udp": socket.socket(socket.AF_INET, socket.SOCK_DGRAM),
            "agent": socket.socket(socket.AF_UNIX, socket.SOCK_STREAM),
            "abstract": socket.socket(socket.AF_UNIX, socket.SOCK_STREAM),
            "datagram": socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM),
        }
        sockets["udp"].bind(("127.0.0.1", 0))
        sockets["agent"].bind(str(self.home / "agent.sock"))
        sockets["abstract"].bind(f"\0{name}")
        sockets["datagram"].bind(str(self.home / "datagram.sock"))
        for kind in ("agent", "datagram"):
            (self.home / f"{kind}.sock").chmod(0o777)
        for kind, one in sockets.items():
            if kind in ("agent", "abstract"):
                one.listen()
            threading.Thread(target=self._hear, args=(kind, one), daemon=True).start()
        self._kept.append(sockets)
        ports = {kind: sockets[kind].getsockname()[1] for kind in ("tcp", "udp")}
        self.facts |= {"abstract": name, **ports}

    def _hear(self, kind: str, listening: socket.socket) -> None:
        while True:
            listening.accept() if listening.type == socket.SOCK_STREAM else listening.recv(100)
            self.heard.append(kind)

    def run_others(self, user: int) -> None:
        """A process of the same user with a key in its environment, arguments and memory; a segment of shared
        memory."""
        as_user = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]
        command = [*as_user, sys.executable, "-c", SHELL, IN_MEMORY]
        environment = {"OPENAI_API_KEY": OF_SHELL, "PATH": os.environ["PATH"]}
        self.shell = subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        assert self.shell.stdout and self.shell.stdout.readline() == "ready\n"
        made = subprocess.run([*as_user, "ipcmk", "-M", "4096", "-p", "0666"], capture_output=True, text=True)
        number = int(made.stdout.split()[-1])
        keys = Path("/proc/sysvipc/shm").read_text().splitlines()[1:]
        key = next(line.split()[0] for line in keys if int(line.split()[1]) == number)
        self.facts |= {"shell": self.shell.pid, "segment": int(key)}
        (self.home / "project/world.json").write_text(json.dumps(self.facts))

    def state(self) -> dict[str, tuple[object, ...]]:
        """Every file of the user with its content, mode and owner."""
        kept = {}
        for path in sorted(self.home.rglob("*")):
            about = path.lstat()
            content = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
            if not path.is_relative_to(self.home / "cache") and not path.is_relative_to(self.home / "data"):
                kept[str(path)] = (content, about.st_mode, about.st_uid)
        for fixed in ("native", "ptx", "exported", "tasks/other"):
            for path in sorted((self.home / "cache" / fixed).rglob("*")):
                if path.is_file() and not path.name.startswith("."):
                    kept[str(path)] = (path.read_bytes(),)
        self.built = {name for name in kept if "/cache/native/" in name or "/cache/ptx/" in name}
        older = Path(self.facts["older"])
        kept[str(older)] = tuple(sorted((path.name, path.read_bytes()) for path in older.iterdir()))
        return kept


def leftover_s() -> float | None:
    """After how many seconds the process that the task left has ended; None if it lives after 5."""
    start = time.monotonic()
    while time.monotonic() - start < 5:
        commands = (path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline"))
        with contextlib.suppress(OSError):
            if not any(DAEMON in command for command in commands):
                return time.monotonic() - start
        time.sleep(0.05)
    return None


def inside(folder: Path, user: int, command: str, trusted: bool) -> None:
    """In namespaces of our own: make the world, run the command, and print what came of it as JSON."""
    mount("none", "/", "none", MS_REC | MS_PRIVATE)
    if user and Path(sys.base_prefix).is_relative_to(
        Path.home()
    ):  # a Python in root's home folder is to be seen
        aside = folder / "pyenv"
        aside.mkdir()
        own = Path.home() / ".pyenv"
        mount(str(own), str(aside), "none", MS_BIND)
        mount("none", str(Path.home()), "tmpfs", 0, "mode=755,size=1m")
        own.mkdir()
        mount(str(aside), str(own), "none", MS_BIND)
    mount("none", "/dev/shm", "tmpfs", 0, "mode=1777")
    world = World(folder, user)
    world.listen()
    world.run_others(user)
    before = world.state()
    master, slave = pty.openpty()
    environment = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    environment |= {"HOME": str(world.home), "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    environment |= {
        "KERNELBLASTER_CACHE": str(world.home / "cache"),
        "KERNELBLASTER_DATA": str(world.home / "data"),
    }
    environment |= dict.fromkeys(
        ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "HF_TOKEN", "AWS_SECRET_ACCESS_KEY"), KEY
    )
    environment |= {"TMPDIR": str(world.home / "tmp")}
    environment |= {"PGPASSWORD": PASSWORD, "MY_SETTING": KEY}
    words = list(COMMANDS[command])
    if command == "optimize":
        words += ["--kb", str(world.home / "own.db")]
    as_user = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]
    start = time.monotonic()
    done = subprocess.run(
        [*as_user, sys.executable, "-m", "kernelblaster", *(["--trust-tasks"] if trusted else []), *words],
        cwd=world.home / "project",
        env=environment,
        stdin=slave,
        capture_output=True,
        timeout=LIMIT_S,
    )
    time.sleep(0.2)
    lives_on = leftover_s()
    after = world.state()
    changed = [name for name in {*before, *after} if before.get(name) != after.get(name)]
    allowed = {
        str(world.home / "own.db"),
        *(f"{world.home}/own.db{end}" for end in ("-wal", "-shm", "-head")),
    }
    output = (done.stdout + done.stderr).decode(errors="replace")
    left = [str(path) for path in (world.home / "cache", world.home / "data") for path in path.rglob("*")
            if path.is_file() and not path.is_relative_to(world.home / "cache/tasks/other")
            and not path.is_relative_to(world.facts["older"])
            and any(one.encode() in path.read_bytes() for one in PLANTED)]  # fmt: skip
    for place in ("/tmp", "/var/tmp", "/dev/shm", "/etc/cron.d"):
        left += [str(path) for path in Path(place).glob("planted-by-task*")]
    left += ["a process that the task left"] if lives_on is None else []
    found = {
        "code": done.returncode,
        "output": output,
        "seconds": time.monotonic() - start,
        "changed": [
            name
            for name in changed
            if name not in allowed and not (name in world.built and name not in before)
        ],
        "heard": world.heard,
        "alive": world.shell.poll() is None,
        "seen": [one for one in PLANTED if one in output],
        "left": left,
    }
    os.close(master)
    print(json.dumps(found))
    world.shell.kill()


def tried(user: int, command: str, trusted: bool) -> dict[str, object]:
    """What came of one command, as `inside` printed it."""
    with tempfile.TemporaryDirectory() as made:
        Path(made).chmod(0o755)
        recorder_executable()
        for kind in ("ptx", "native"):
            shutil.copytree(settings().cache / kind, Path(made) / "built" / kind, ignore=LEFT_OUT)
        words = [
            "unshare",
            "--mount",
            "--pid",
            "--ipc",
            "--fork",
            "--mount-proc",
            "--kill-child",
            sys.executable,
        ]
        words += [__file__, "--inside", made, "--user", str(user), "--command", command]
        words += ["--trusted"] if trusted else []
        done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return found


def told(user: int, command: str, found: dict[str, object]) -> tuple[list[str], list[tuple[str, str, str]]]:
    """Lines about one command, and its probes: (place, name, outcome)."""
    lines = [line.split("\t")[1:] for line in str(found["output"]).splitlines() if line.startswith("PROBE\t")]
    probes = [(place, name, outcome) for place, name, outcome in lines]
    through = [one for one in probes if one[2].startswith("THROUGH")]
    places = collections.Counter(place for place, _, _ in probes)
    who = "root" if user == 0 else f"user {user}"
    row = [f"| {who} | `{command}` | {len(probes)} | {len(through)} | {', '.join(places)} "
           f"| {'yes' if found['alive'] else '**NO**'} | {len(found['changed'])} | {len(found['heard'])} "
           f"| {len(found['seen']) + len(found['left'])} | {found['code']} |"]  # fmt: skip
    for place, name, outcome in through:
        print(f"THROUGH as {who}, {command}, {place}: {name}: {outcome}")
    for kind in ("changed", "heard", "seen", "left"):
        if found[kind]:
            print(f"{kind.upper()} as {who}, {command}: {found[kind]}")
    return row, probes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--user", type=int, action="append")
    parser.add_argument("--command", action="append", choices=list(COMMANDS))
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--trusted", action="store_true", help="with --trust-tasks: what would get through")
    parser.add_argument("--show", action="store_true", help="print the command's whole output")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    if given.inside:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        inside(given.inside, given.user[0], given.command[0], given.trusted)
        return
    lines = ["| as | command | probes | got through | places | others live | files changed | sockets heard "
             "| planted seen | code |", "|---|---|---|---|---|---|---|---|---|---|"]  # fmt: skip
    outcomes: dict[str, set[str]] = {}
    for user in given.user or [0, 1000]:
        for command in given.command or list(COMMANDS):
            found = tried(user, command, given.trusted)
            if given.show:
                print(found["output"])
            row, probes = told(user, command, found)
            lines += row
            print(row[0], flush=True)
            for _, name, outcome in probes:
                outcomes.setdefault(name, set()).add(" ".join(outcome.split()[:3]))
    lines += ["", "| probe | what came of it |", "|---|---|"]
    lines += [f"| {name} | {'; '.join(sorted(all_of))} |" for name, all_of in outcomes.items()]
    publish(lines, given.out)


if __name__ == "__main__":
    main()
