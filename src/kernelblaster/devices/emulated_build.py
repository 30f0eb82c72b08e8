"""The emulating worker: the PTX machine's core with a CUDA runtime in front, built once."""

import hashlib
import subprocess
from pathlib import Path

from kernelblaster import cache
from kernelblaster.devices.toolchain import toolchain
from kernelblaster.errors import KernelBlasterError
from kernelblaster.ptx.build import machine_library

NATIVE = Path(__file__).parent / "native"
SOURCES = ("emulated.cpp", "stand_in.cpp", "sandbox.cpp")
HEADERS = ("emulated.h", "protocol.h", "worker.h")


def emulated_worker() -> Path:
    """Path of the executable; a few seconds beyond building the machine itself, the first time."""
    tools = toolchain()
    library = machine_library()
    digest = hashlib.sha256(f"{tools.version} {library}".encode())
    for name in (*SOURCES, *HEADERS):
        digest.update((NATIVE / name).read_bytes())
    target = cache.entry("worker", digest.hexdigest()[:32])
    executable = target / "emulated"
    if not executable.is_file():
        with cache.filling(target) as folder:
            command = [tools.nvcc, "-O2", "-std=c++17", "-cudart", "none", "-Xcompiler", "-rdynamic"]
            command += [str(NATIVE / name) for name in SOURCES]
            command += [str(library), "-ldl", "-lpthread", "-Xlinker", f"-z,now,-rpath,{library.parent}"]
            done = subprocess.run([*command, "-o", str(folder / "emulated")], capture_output=True, text=True)
            if done.returncode != 0:
                raise KernelBlasterError(
                    f"the emulating worker could not be built: {(done.stderr or done.stdout)[-800:]}"
                )
    return executable
