"""Loop headers and index arithmetic that the emitters share."""

from collections.abc import Iterable, Sequence

from kernelblaster.policies.expert import index as indices
from kernelblaster.policies.expert.index import Index, text
from kernelblaster.policies.expert.plan import Axis


def indented(lines: Iterable[str], depth: int = 1) -> list[str]:
    return ["  " * depth + line for line in lines]


def unravel(linear: str, axes: Sequence[Axis], wanted: set[str] | None = None) -> list[str]:
    """Declarations of the axes' variables from one running number, the last axis fastest."""
    lines = []
    rest = axes[1:]
    for place, axis in enumerate(axes):
        inner = indices.product(a.extent for a in rest[place:])
        value: Index = indices.divide(indices.variable(linear), inner)
        if place:
            value = indices.remainder(value, axis.extent)
        if not axis.once and (wanted is None or axis.name in wanted):
            lines.append(f"const int64_t {axis.name} = {text(value)};")
    return lines


def running(default: str, axes: Sequence[Axis]) -> tuple[str, list[str]]:
    """The variable that runs over all axes, and the declarations of theirs; one axis is its own."""
    moving = [axis for axis in axes if not axis.once]
    if len(moving) == 1:
        return moving[0].name, []
    return default, unravel(default, axes)


def nested(axes: Sequence[Axis], body: Sequence[str]) -> list[str]:
    """The body within one loop for each axis, the last one innermost."""
    lines = list(body)
    for axis in reversed([axis for axis in axes if not axis.once]):
        first, last = text(axis.begin), text(axis.end)
        head = f"for (int64_t {axis.name} = {first}; {axis.name} < {last}; ++{axis.name}) {{"
        lines = [head, *indented(lines), "}"]
    return lines


def count(extents: Iterable[Index]) -> str:
    return text(indices.product(extents))
