"""Reads a compiled candidate's device code: parameter layout of its kernels and sizes of its global
variables, from the PTX that is stored beside the shared object."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from kernelblaster.devices.device import CandidateDied
from kernelblaster.records import Resources
from kernelblaster.records.evaluation import Compilation

ENTRY = re.compile(r"\.entry\s+([\w$]+)\s*(?:\(([^)]*)\))?([^{;]*)\{")
PARAMETER = re.compile(
    r"\.param\s+(?:\.align\s+(\d+)\s+)?\.(\w+)\s+(?:\.ptr\S*\s+|\.\w+\s+|\.align\s+\d+\s+)*[\w$]+(?:\[(\d+)\])?"
)
THREADS = re.compile(r"\.(?:maxntid|reqntid)\s+(\d+)(?:\s*,\s*(\d+))?(?:\s*,\s*(\d+))?")
GLOBAL = re.compile(
    r"^\s*(?:\.(?:visible|weak|common)\s+)*\.(?:global|const)\s+(?:\.attribute\([^)]*\)\s*)?"
    r"(?:\.align\s+\d+\s+)?\.(\w+)\s+([\w$]+)((?:\[\d+\])*)",
    re.MULTILINE,
)
PTX, CUBIN, OBJECT = "candidate.ptx", "candidate.cubin", "candidate.so"
MOST_THREADS = 1024
REGISTERS = 65536


@dataclass(frozen=True)
class DeviceKernel:
    """What is known about a compiled kernel. `parameters` has (offset, bytes) of each parameter in the
    kernel's parameter buffer. `resources` is ptxas' report (None if missing), `max_threads` the most threads
    that a block of it can have. `waits`: it contains `griddepcontrol.wait`, by which a dependent launch waits
    for the end of the previous launch."""

    parameters: tuple[tuple[int, int], ...]
    resources: Resources | None
    max_threads: int
    waits: bool = False


@dataclass(frozen=True)
class DeviceCode:
    """A candidate's device code. `kernels` has its kernels, and `globals` the size in bytes of each
    __device__ or __constant__ variable, both by mangled name."""

    kernels: Mapping[str, DeviceKernel]
    globals: Mapping[str, int]


@lru_cache(maxsize=256)
def device_code(folder: Path) -> DeviceCode:
    """The device code of the candidate that was compiled into `folder`, from its PTX; remembered by folder.
    Raises CandidateDied if there is no PTX."""
    path = folder / PTX
    if not path.is_file():
        raise CandidateDied(f"load: there is no {path}")
    return parse(path.read_text(), resources_in(folder))


def resources_in(folder: Path) -> dict[str, Resources]:
    """ptxas' report on each kernel of the candidate that was compiled into `folder`, by mangled name; empty
    if there is no report."""
    report = folder / "compilation.json"
    if not report.is_file():
        return {}
    return {r.kernel: r for r in Compilation.model_validate_json(report.read_text()).resources}


def parse(text: str, resources: Mapping[str, Resources] | None = None) -> DeviceCode:
    """The kernels and global variables that a PTX text declares. `resources` are ptxas' reports by mangled
    name. The registers in a kernel's report limit how many threads its blocks can have (`max_threads` in the
    result)."""
    known = resources or {}
    kernels = {}
    entries = list(ENTRY.finditer(text))
    for number, entry in enumerate(entries):
        name, parameters, directives = entry.groups()
        end = entries[number + 1].start() if number + 1 < len(entries) else len(text)
        kernels[name] = DeviceKernel(
            tuple(_offsets(parameters or "")),
            known.get(name),
            _max_threads(directives, known.get(name)),
            "griddepcontrol.wait" in text[entry.end() : end],
        )
    variables = {name: _size(kind) * _count(dims) for kind, name, dims in GLOBAL.findall(text)}
    return DeviceCode(kernels, variables)


def _offsets(parameters: str):  # type: ignore[no-untyped-def]
    """Yields (offset, bytes) of each parameter in a PTX parameter list, laid out with the declared or natural
    alignment."""
    position = 0
    for align, kind, count in PARAMETER.findall(parameters):
        size = _size(kind)
        unit = int(align) if align else size
        position = -(-position // unit) * unit
        size *= int(count) if count else 1
        yield position, size
        position += size


def _max_threads(directives: str, resources: Resources | None) -> int:
    """The most threads of a block: limited by .maxntid or .reqntid in the PTX directives, and by
    registers."""
    declared = THREADS.search(directives)
    most = MOST_THREADS
    if declared:
        x, y, z = (int(extent or 1) for extent in declared.groups())
        most = min(most, x * y * z)
    if resources and resources.registers:
        per_warp = -(-resources.registers * 32 // 256) * 256
        most = min(most, REGISTERS // per_warp * 32)
    return most


def _size(kind: str) -> int:
    """Bytes of a PTX type like `b32` or `f64`; 1 for a type without a number, like `pred`."""
    bits = re.search(r"\d+", kind)
    return int(bits[0]) // 8 if bits else 1


def _count(dims: str) -> int:
    """Number of elements of an array that PTX declares with dimensions like `[4][8]`; 1 for an empty text, a
    scalar."""
    count = 1
    for extent in re.findall(r"\d+", dims):
        count *= int(extent)
    return count
