"""Finds nvcc, g++ and libcudart: in a CUDA toolkit, or in NVIDIA's PyPI packages."""

import os
import re
import shutil
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from kernelblaster.errors import NoCompiler
from kernelblaster.processes.leashed import run_quick
from kernelblaster.settings import settings

LIMIT_S = 60.0  # in which a compiler tells its version


@dataclass(frozen=True)
class Toolchain:
    """The compilers in use: the paths of nvcc and of the host compiler (g++). `version` is nvcc's, `runtime`
    the path of the matching libcudart, None if it was not found."""

    nvcc: str
    version: str
    host_compiler: str
    runtime: str | None

    @property
    def major(self) -> int:
        return int(self.version.split(".")[0])


@cache
def toolchain() -> Toolchain:
    """The compilers to use; looked for once in each process. Raises NoCompiler, with advice, if nvcc or g++
    is missing or does not work."""
    nvcc = settings().nvcc
    if nvcc is None or not Path(nvcc).is_file():
        named = f"{nvcc} does not exist" if nvcc else "no nvcc on the PATH or in /usr/local/cuda"
        raise NoCompiler(
            f"nvcc was not found: {named}. Install the CUDA toolkit, or run "
            "`pip install 'kernelblaster[nvcc]'`, or set KERNELBLASTER_NVCC."
        )
    host = shutil.which("g++")
    if host is None:
        raise NoCompiler("g++ was not found; nvcc needs it. On Debian: apt-get install g++")
    try:
        code, report = run_quick([nvcc, "--version"], LIMIT_S)
    except OSError as error:
        raise NoCompiler(
            f"{nvcc} cannot be run: {error.strerror or error}. Put a working nvcc first on the PATH, or set "
            "KERNELBLASTER_NVCC to one."
        ) from error
    if code is None:
        raise NoCompiler(f"{nvcc} --version did not answer in {LIMIT_S:g} s; see KERNELBLASTER_NVCC.")
    match = re.search(r"release [\d.]+, V([\d.]+)", report)
    if not match:
        raise NoCompiler(f"{nvcc} --version failed: {report.strip()[:300]}")
    return Toolchain(nvcc, match[1], host, _runtime(nvcc, int(match[1].split(".")[0])))


def _runtime(nvcc: str, major: int) -> str | None:
    """The path of libcudart of CUDA's `major` version: from the toolkit of this `nvcc` if it has one, else
    from usual folders and NVIDIA's PyPI packages; None if not found."""
    home = Path(os.path.realpath(nvcc)).parent.parent
    folders = [home / "lib64", home / "lib", home / "targets/x86_64-linux/lib"]
    folders += [Path("/usr/local/cuda/lib64"), Path("/usr/lib/x86_64-linux-gnu")]
    folders += [Path(p) / "nvidia" / f"cu{major}" / "lib" for p in sys.path]
    folders += [Path(p) / "nvidia" / "cuda_runtime" / "lib" for p in sys.path]
    for folder in folders:
        library = folder / f"libcudart.so.{major}"
        if library.exists():
            return str(library)
    return None
