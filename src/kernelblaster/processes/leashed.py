"""Run a command, a compiler for example, that neither outlives this process nor a time limit, and nor does
anything that it starts."""

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
    """Exit code (None past the limit) and output. `memory_bytes` is for each process; 0: no limit."""
    watched, held = os.pipe()
    try:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(LEASH), str(watched), str(memory_bytes), *command],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
            pass_fds=(watched,),
        )
        try:
            output, _ = process.communicate(timeout=limit_s)
        except BaseException as error:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            if isinstance(error, subprocess.TimeoutExpired):
                return None, ""
            raise
    finally:
        os.close(watched)
        os.close(held)
    return process.returncode, output
