"""Run a command, such as a compiler, with a time limit for it and all processes that it starts."""

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
    """Exit code (None: the limit was exceeded) and output of a command. It is killed when this process ends,
    however that happens. `memory_bytes` is the address space of each process; 0: no limit."""
    watched, held = os.pipe()
    try:
        leash = [sys.executable, "-I", "-S", str(LEASH), str(watched), str(memory_bytes)]
        return _run([*leash, *command], limit_s, folder, environment, (watched,))
    finally:
        os.close(watched)
        os.close(held)


def run_quick(command: Sequence[str], limit_s: float) -> tuple[int | None, str]:
    """`run_leashed` for commands that take a moment: without the process in between, which would take longer;
    so it may outlive this process."""
    return _run(command, limit_s)


def _run(
    command: Sequence[str],
    limit_s: float,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
    inherited: tuple[int, ...] = (),
) -> tuple[int | None, str]:
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
