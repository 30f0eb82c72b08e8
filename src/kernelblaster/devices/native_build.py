"""Builds KernelBlaster's own executables with nvcc; afterwards they come from the cache. These are the
recorder, which runs a candidate's host code and records its launches, and two players, which replay them on a
GPU or on the emulator."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from kernelblaster import cache, keeper
from kernelblaster.building import building
from kernelblaster.devices.toolchain import toolchain
from kernelblaster.errors import KernelBlasterError
from kernelblaster.processes.leashed import run_leashed
from kernelblaster.ptx.build import machine_library
from kernelblaster.settings import building_environment, settings

NATIVE = Path(__file__).parent / "native"
TITLES = {"emulated": "the emulator's player"}
LIMIT_S = 900.0  # of building one of them
HEADERS = (
    *("device_properties.h", "launcher.h", "operations.h", "protocol.h", "recording.h"),
    *("instruction.h", "stepping.h"),
)


def recorder_executable() -> Path:
    """Path of the recorder, the executable that runs a candidate's host code and records its launches; built
    first if it is not in the cache, which takes a few seconds."""
    # A C++ library of its own tells its own memory from the candidate's.
    options = ["-cudart", "none", "-Xcompiler", "-rdynamic,-static-libstdc++,-static-libgcc", "-ldl"]
    options += ["-Xlinker", "-z,now,--exclude-libs,ALL"]
    sources = ("recorder.cpp", "stand_in.cpp", "sandbox.cpp", "kept.cpp")
    stepping = ("stepping.cpp", "stepped.cpp", "instruction.cpp", "sides.cpp", "library_calls.cpp")
    return _built("recorder", (*sources, *stepping), options)


def launcher_executable(architecture: str) -> Path:
    """Path of the executable that replays recorded launches on a GPU of `architecture` (like sm_90a); built
    first if it is not in the cache, which takes about 5 s."""
    number = architecture.removeprefix("sm_")
    options = ["-cudart", "static", f"-gencode=arch=compute_{number},code=sm_{number}"]
    sources = ("launcher.cpp", "launcher_memory.cpp", "launcher_facts.cpp", "flush.cu")
    return _built("launcher", sources, options, architecture=architecture)


def emulating_player() -> Path:
    """Path of the executable that replays recorded launches on the PTX machine (the emulator of GPUs); built
    first if it is not in the cache, which takes a few seconds, and about a minute more if the emulator itself
    is not built yet."""
    library = machine_library()
    options = ["-cudart", "none", str(library), "-ldl", "-lpthread"]
    options += ["-Xlinker", f"-z,now,-rpath,{library.parent}"]
    return _built("emulated", ("emulated.cpp",), options)


def _built(name: str, sources: Sequence[str], options: Sequence[str], **about: str) -> Path:
    """Path of the native executable `name`, compiled at first use and then remembered in this process.
    `sources` are files in NATIVE, `options` are nvcc's. Where this process may not compile (is confined), the
    keeper, its trusted parent, does it; `about` are the arguments of that request, like the GPU's
    architecture."""
    key = (name, *options)
    return cache.find_once("native", key, lambda: _found_or_built(name, sources, options, about))


def _found_or_built(
    name: str, sources: Sequence[str], options: Sequence[str], about: Mapping[str, str]
) -> Path:
    """Path of the native executable `name` in the cache, keyed by sources, options and compiler; compiled
    first if it is missing. For a confined process the keeper, the command's trusted process, compiles it;
    `about` are further arguments of that request. Raises KernelBlasterError if that fails."""
    tools = toolchain()
    digest = hashlib.sha256(f"{tools.version} {name} {' '.join(options)}".encode())
    for file in (*sources, *HEADERS):
        digest.update((NATIVE / file).read_bytes())
    target = cache.entry("native", digest.hexdigest()[:32])
    executable = target / name
    if cache.is_stored(target):
        return executable
    if settings().confined:
        with building(TITLES.get(name, f"the {name}"), "a few seconds") as tell:
            keeper.build(name, tell, **about)
        return executable
    with building(TITLES.get(name, f"the {name}"), "a few seconds"), cache.filling(target) as folder:
        command = [tools.nvcc, "-O2", "-std=c++17"]
        command += [str(NATIVE / source) for source in sources]
        command += [*options, "-o", str(folder / name)]
        code, log = run_leashed(command, limit_s=LIMIT_S, environment=building_environment(folder))
        if code is None:
            raise KernelBlasterError(f"{tools.nvcc} did not build the {name} in {LIMIT_S:g} s.")
        if code != 0:
            raise KernelBlasterError(f"the {name} could not be built with {tools.nvcc}: {log[-800:]}")
    return executable
