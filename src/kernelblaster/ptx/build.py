"""The machine's C++ core, built once with the host compiler and taken from the cache afterwards."""

import hashlib
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from kernelblaster import cache
from kernelblaster.cache.contents import is_whole
from kernelblaster.errors import KernelBlasterError, NoCompiler
from kernelblaster.processes.leashed import run_leashed

NATIVE = Path(__file__).parent / "native"
FLAGS = ("-std=c++17", "-O3", "-march=native", "-ffp-contract=off", "-fno-fast-math", "-fPIC", "-pthread")


def machine_library() -> Path:
    """Path of the shared library; about a minute of compiler time the first time."""
    sources = sorted(NATIVE.glob("*.cpp"))
    compiler = shutil.which("g++")
    if compiler is None:
        raise NoCompiler(
            "g++ was not found; the PTX machine is built with it. On Debian: apt-get install g++"
        )
    version = subprocess.run([compiler, "-v"], capture_output=True, text=True, check=False).stderr
    digest = hashlib.sha256((" ".join(FLAGS) + version + _cpu()).encode())
    for file in sorted(NATIVE.iterdir()):
        digest.update(file.read_bytes())
    target = cache.entry("ptx", digest.hexdigest()[:32])
    library = target / "machine.so"
    if not cache.found(target):
        with cache.alone(target):
            if not is_whole(target):
                with cache.filling(target) as folder:
                    _build(compiler, sources, folder)
    return library


def _build(compiler: str, sources: list[Path], folder: Path) -> None:
    """Every file by itself, side by side, then together."""
    objects = [folder / f"{source.stem}.o" for source in sources]
    commands = [
        [compiler, *FLAGS, "-c", str(source), "-o", str(made)]
        for source, made in zip(sources, objects, strict=True)
    ]
    with ThreadPoolExecutor(len(commands)) as pool:
        done = list(pool.map(run_leashed, commands))
    if all(code == 0 for code, _ in done):
        link = [compiler, "-shared", "-pthread", *map(str, objects), "-o", str(folder / "machine.so")]
        done = [run_leashed(link)]
        if done[0][0] == 0:
            return
    logs = [log for _, log in done]
    raise KernelBlasterError(f"the PTX machine could not be built: {''.join(logs)[-800:]}")


def _cpu() -> str:
    """The processor's features: the library uses them, and a cache may be shared between machines."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return ""
    return next((line for line in lines if line.startswith("flags")), "")
