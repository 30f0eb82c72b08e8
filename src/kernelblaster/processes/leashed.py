"""Runs a command, such as a compiler, with a time limit after which it and all processes that it started are
killed."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

LEASH = Path(__file__).parent / "leash.py"


def run_leashed(
    command: Sequence[str],
    *,
    limit_s: float,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
    memory_bytes: int = 0,
) -> tuple[int | None, str]:
    """Runs a command to its end. Returns (exit code, stdout and stderr together), or (None, "") if it took
    longer than `limit_s` seconds; it is then killed with all processes that it started. It is also killed
    when this process ends, however that happens. `folder` is its working directory (None: this process's
    own), `memory_bytes` the most address space of each process (0: no limit). `environment` are its variables
    (None: this process's own)."""
    watched, held = os.pipe()
    try:
        leash = [sys.executable, "-I", "-S", str(LEASH), str(watched), str(memory_bytes)]
        return _run([*leash, *command], limit_s, folder, environment, (watched,))
    finally:
        os.close(watched)
        os.close(held)


def run_quick(command: Sequence[str], limit_s: float) -> tuple[int | None, str]:
    """Runs a command that should take a moment, like one that tells its version. Returns (exit code, stdout
    and stderr together), or (None, "") if it took longer than `limit_s` seconds and was killed. It is faster
    than `run_leashed`, because it starts no supervising process. So the command may outlive this process, if
    this process is killed."""
    return _run(command, limit_s)


def _run(
    command: Sequence[str],
    limit_s: float,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
    inherited: tuple[int, ...] = (),
) -> tuple[int | None, str]:
    """Runs a command in a session of its own, in the working directory `folder` and with the variables
    `environment` (None: this process's own): (exit code, output); (None, "") after `limit_s` seconds, when
    its whole process group is killed. `inherited` are file descriptors that it gets."""
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
        pass_fds=inherited,
    )
    try:
        output, _ = process.communicate(timeout=limit_s)
    except BaseException as error:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        if isinstance(error, subprocess.TimeoutExpired):
            return None, ""
        raise
    return process.returncode, output
