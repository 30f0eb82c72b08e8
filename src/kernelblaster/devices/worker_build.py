"""The worker executable: built once for a toolkit and an architecture, then taken from the cache."""

import hashlib
import subprocess
from pathlib import Path

from kernelblaster import cache
from kernelblaster.devices.toolchain import toolchain
from kernelblaster.errors import KernelBlasterError

NATIVE = Path(__file__).parent / "native"
SOURCES = ("worker.cpp", "flush.cu", "shims.cpp", "sandbox.cpp")


def worker_executable(architecture: str) -> Path:
    """Path of the worker for `architecture` (like sm_90a); about 5 s the first time."""
    tools = toolchain()
    digest = hashlib.sha256(f"{tools.version} {architecture}".encode())
    for name in (*SOURCES, "protocol.h", "worker.h"):
        digest.update((NATIVE / name).read_bytes())
    target = cache.entry("worker", digest.hexdigest()[:32])
    executable = target / "worker"
    if executable.is_file():
        return executable
    with cache.filling(target) as folder:
        command = [tools.nvcc, "-O2", "-std=c++17", "-cudart", "none", f"-arch={architecture}"]
        command += ["-D__NV_LEGACY_LAUNCH", "-Xcompiler", "-rdynamic,-D__NV_LEGACY_LAUNCH"]
        command += [str(NATIVE / name) for name in SOURCES]
        command += ["-ldl", "-Xlinker", "-z,now", "-o", str(folder / "worker")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise KernelBlasterError(
                f"the worker could not be built with {tools.nvcc}: {(done.stderr or done.stdout)[-800:]}"
            )
    return executable
