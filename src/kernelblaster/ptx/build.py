"""Builds the C++ core of the PTX machine, the emulator that runs kernels without a GPU, with g++; afterwards
it comes from the cache."""

import hashlib
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path

from kernelblaster import cache, keeper
from kernelblaster.building import building
from kernelblaster.cache.contents import is_whole
from kernelblaster.errors import KernelBlasterError, NoCompiler
from kernelblaster.processes.leashed import run_leashed, run_quick
from kernelblaster.settings import building_environment, settings

NATIVE = Path(__file__).parent / "native"
FLAGS = (
    *("-std=c++17", "-O3", "-march=native", "-ffp-contract=off", "-fno-fast-math", "-fPIC", "-pthread"),
    *("-fno-trapping-math", "-fno-math-errno"),  # flags and errno are never read: lets loops vectorize
)
OBJECT = "object.o"
HEADER = "machine.h"  # included by all sources: with what it includes, most of the time of small ones
FEW = 4  # files for which it does not pay to compile the header first
TOLD_EVERY_S = 1.0
VERSION_LIMIT_S = 60.0
LIMIT_S = 1800.0  # of compiling one file, on a machine that is busy


def machine_library() -> Path:
    """Path of the emulator's shared library, built first if it is not in the cache; that takes about a
    minute. Raises NoCompiler without g++."""
    compiler = shutil.which("g++")
    if compiler is None:
        raise NoCompiler(
            "g++ was not found; the PTX machine is built with it. On Debian: apt-get install g++"
        )
    return cache.find_once("ptx", (compiler,), lambda: _found_or_built(compiler))


def _found_or_built(compiler: str) -> Path:
    """Path of the emulator's library in the cache, keyed by sources, flags, compiler and CPU. If it is
    missing, it is built first, by one process at a time; for a confined process, the keeper (the command's
    trusted process) builds it."""
    code, version = run_quick([compiler, "-v"], VERSION_LIMIT_S)
    if code is None:
        raise NoCompiler(f"{compiler} -v did not answer in {VERSION_LIMIT_S:g} s.")
    about = " ".join(FLAGS) + version + _cpu()
    target = cache.entry("ptx", _digest(about, sorted(NATIVE.iterdir())))
    library = target / "machine.so"
    if cache.is_stored(target):
        return library
    if settings().confined:
        with building("the emulator", "about a minute") as tell:
            keeper.build("machine", tell)
        return library
    with cache.alone(target):
        if not is_whole(target):
            with building("the emulator", "about a minute") as tell:
                objects = compiled(compiler, sorted(NATIVE.glob("*.cpp")), about, tell)
                with cache.filling(target) as folder:
                    _run([compiler, "-shared", "-pthread", *objects], folder / "machine.so")
    return library


def compiled(compiler: str, sources: Sequence[Path], about: str, tell: Callable[[str], None]) -> list[str]:
    """Compiles C++ sources in parallel, the largest first, with the C++ compiler `compiler`. Returns the
    paths of the object files, in the order of `sources`. `about` describes compiler and options; it goes into
    the hash by which an object is found in the cache. `tell` is called with progress as text. Each object is
    cached as soon as it is done, so an interrupted build continues with the missing ones."""
    headers = sorted(sources[0].parent.glob("*.h"))
    targets = {source: cache.entry("ptx-objects", _digest(about, [*headers, source])) for source in sources}
    missing = [source for source in sources if not cache.is_stored(targets[source])]
    missing.sort(key=lambda source: -source.stat().st_size)
    header = sources[0].parent / HEADER if len(missing) > FEW else None
    with _precompiled(compiler, header) as options, ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        try:
            left = {
                pool.submit(_compile, [compiler, *options], source, targets[source]) for source in missing
            }
            while left:
                tell(f"{len(sources) - len(left)} of {len(sources)} files")
                done, left = wait(left, TOLD_EVERY_S, FIRST_COMPLETED)
                for one in done:
                    one.result()
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)  # those under way are finished, and kept
            raise
    return [str(targets[source] / OBJECT) for source in sources]


@contextmanager
def _precompiled(compiler: str, header: Path | None) -> Iterator[list[str]]:
    """A context in which `header` is precompiled (some 60 MB); yields the compiler's options that use it.
    Yields no options if `header` is None or precompiling fails: the files compile without, only slower."""
    if header is None:
        yield []
        return
    with cache.temporary() as folder:
        text = folder / header.name
        text.write_text(f'#include "{header}"\n')
        options = ["-include", str(text)]
        try:
            _run([compiler, *FLAGS, "-x", "c++-header", str(text)], folder / f"{header.name}.gch")
        except KernelBlasterError:
            options = []
        yield options


def _compile(command: Sequence[str], source: Path, target: Path) -> None:
    with cache.filling(target) as folder:
        _run([*command, *FLAGS, "-c", str(source)], folder / OBJECT)


def _run(command: list[str], target: Path) -> None:
    """Run a compiler command that writes `target` (`-o target` is added). Raises KernelBlasterError if it
    fails or takes over LIMIT_S seconds."""
    environment = building_environment(target.parent)
    code, log = run_leashed([*command, "-o", str(target)], limit_s=LIMIT_S, environment=environment)
    if code is None:
        raise KernelBlasterError(f"{command[0]} did not build the PTX machine in {LIMIT_S:g} s.")
    if code != 0:
        raise KernelBlasterError(f"the PTX machine could not be built: {log[-800:]}")


def _digest(about: str, files: Sequence[Path]) -> str:
    """A key for the cache that changes with the text `about` (compiler, flags) or with the content of any of
    `files`: 32 hexadecimal digits."""
    digest = hashlib.sha256(about.encode())
    for file in files:
        digest.update(file.read_bytes())
    return digest.hexdigest()[:32]


def _cpu() -> str:
    """The CPU's feature flags, for the cache key: the library uses them (-march=native), and a cache may be
    shared between machines. Empty if unknown."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return ""
    return next((line for line in lines if line.startswith("flags")), "")
