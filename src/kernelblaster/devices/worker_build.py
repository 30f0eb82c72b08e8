"""The worker executables: each built once with nvcc, then taken from the cache."""

import hashlib
import subprocess
from collections.abc import Sequence
from pathlib import Path

from kernelblaster import cache
from kernelblaster.devices.toolchain import toolchain
from kernelblaster.errors import KernelBlasterError
from kernelblaster.ptx.build import machine_library

NATIVE = Path(__file__).parent / "native"
HEADERS = ("emulated.h", "protocol.h", "worker.h")


def worker_executable(architecture: str) -> Path:
    """Path of the GPU's worker for `architecture` (like sm_90a); about 5 s the first time."""
    options = [f"-arch={architecture}", "-D__NV_LEGACY_LAUNCH"]
    options += ["-Xcompiler", "-rdynamic,-D__NV_LEGACY_LAUNCH", "-ldl", "-Xlinker", "-z,now"]
    return _built("worker", ("worker.cpp", "flush.cu", "shims.cpp", "sandbox.cpp"), options)


def emulated_worker() -> Path:
    """Path of the emulating worker: the PTX machine's core with a CUDA runtime in front; a few seconds
    beyond building the machine itself, the first time."""
    library = machine_library()
    options = ["-Xcompiler", "-rdynamic", str(library), "-ldl", "-lpthread"]
    options += ["-Xlinker", f"-z,now,-rpath,{library.parent}"]
    return _built("emulated", ("emulated.cpp", "stand_in.cpp", "sandbox.cpp"), options)


def _built(name: str, sources: Sequence[str], options: Sequence[str]) -> Path:
    tools = toolchain()
    digest = hashlib.sha256(f"{tools.version} {name} {' '.join(options)}".encode())
    for file in (*sources, *HEADERS):
        digest.update((NATIVE / file).read_bytes())
    target = cache.entry("worker", digest.hexdigest()[:32])
    executable = target / name
    if executable.is_file():
        return executable
    with cache.filling(target) as folder:
        command = [tools.nvcc, "-O2", "-std=c++17", "-cudart", "none"]
        command += [str(NATIVE / source) for source in sources]
        command += [*options, "-o", str(folder / name)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise KernelBlasterError(
                f"the worker could not be built with {tools.nvcc}: {(done.stderr or done.stdout)[-800:]}"
            )
    return executable
