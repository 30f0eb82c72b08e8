"""Tests whether CUDA's driver starts in a confined process.

`python -m kernelblaster.confinement.gpu_probe` confines itself and starts the driver; if the driver does not
start, it prints the reason.
"""

import ctypes
import subprocess
import sys

from kernelblaster.errors import KernelBlasterError

LIMIT_S = 60


def confined_gpu_problem() -> str:
    """Returns why CUDA's driver does not start in a process that is confined as commands are, in words; empty
    if it does start. Takes about half a second, since it starts such a process to try."""
    command = [sys.executable, "-m", "kernelblaster.confinement.gpu_probe"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        return f"it does not start within {LIMIT_S} s"
    return "" if done.returncode == 0 else done.stderr.strip().rpartition("\n")[2]


def _start_cuda() -> None:
    from kernelblaster.confinement.confine import Needs, confine

    try:
        confine(Needs(gpu=True))
        error = ctypes.CDLL("libcuda.so.1").cuInit(0)
    except (KernelBlasterError, OSError) as failed:
        sys.exit(str(failed))
    if error:
        sys.exit(f"CUDA's driver does not start: error {error}")


if __name__ == "__main__":
    _start_cuda()
