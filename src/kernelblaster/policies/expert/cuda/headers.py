"""Hand-written device code (functions and types, in device_code/*.cuh) that emitted kernels use.

A file of device code includes the other files that it builds on (`#include "pack.cuh"`). An emitted source
contains each file that it needs once; an included file comes before those that include it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "device_code"
INCLUDE = '#include "'


@dataclass(frozen=True, eq=False)
class Header:
    """A piece of device code that emitted kernels may need: its name, its CUDA text, and the other pieces
    that it includes."""

    name: str
    text: str
    includes: tuple["Header", ...] = ()


@cache
def header(name: str) -> Header:
    """Returns the header with the text of `name`.cuh in the folder device_code, and with all headers that
    this file includes. The #include lines are not part of its text. Raises FileNotFoundError when there is no
    such file."""
    lines = (FOLDER / f"{name}.cuh").read_text().rstrip("\n").split("\n")
    included = [line for line in lines if line.startswith(INCLUDE)]
    names = [line.removeprefix(INCLUDE).removesuffix('.cuh"') for line in included]
    own = "\n".join(line for line in lines if line not in included).strip("\n")
    return Header(name, own, tuple(header(other) for other in names))


def in_order(needed: Iterable[Header]) -> list[Header]:
    """Returns the `needed` headers and all headers that they include, directly or indirectly. A header comes
    after all that it includes. If several headers have the same name, only the first is returned."""
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
