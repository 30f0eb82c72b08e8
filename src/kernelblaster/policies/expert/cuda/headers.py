"""Device code: functions and types that emitted kernels use, written by hand in files of CUDA.

A file includes those that it builds on (`#include "pack.cuh"`); a source gets every file that it needs once,
after what that includes."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "device_code"
INCLUDE = '#include "'


@dataclass(frozen=True, eq=False)
class Header:
    """A piece of device code and what it includes."""

    name: str
    text: str
    includes: tuple["Header", ...] = ()


@cache
def header(name: str) -> Header:
    """A file of the folder `device_code`."""
    lines = (FOLDER / f"{name}.cuh").read_text().rstrip("\n").split("\n")
    included = [line for line in lines if line.startswith(INCLUDE)]
    names = [line.removeprefix(INCLUDE).removesuffix('.cuh"') for line in included]
    own = "\n".join(line for line in lines if line not in included).strip("\n")
    return Header(name, own, tuple(header(other) for other in names))


def in_order(needed: Iterable[Header]) -> list[Header]:
    """All that is needed, with what it includes, each once and after what it includes. Of several with one
    name, the first is taken, after what any of them includes."""
    includes: dict[str, dict[Header, None]] = {}
    waiting = list(needed)
    first = list(waiting)
    while waiting:
        here = waiting.pop(0)
        includes.setdefault(here.name, {}).update(dict.fromkeys(here.includes))
        waiting += here.includes
    found: dict[str, Header] = {}

    def add(header: Header) -> None:
        if header.name not in found:
            for other in includes[header.name]:
                add(other)
            found[header.name] = header

    for header in first:
        add(header)
    return list(found.values())
