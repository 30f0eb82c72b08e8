"""How many windows of a convolution or pooling fit in an operand, by PyTorch's own formulas.

The formula cannot be found from the extents in a few workloads: (x + 1) / 2 and x / 2, rounded down, are
equal if all x are even.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kernelblaster.policies.expert import index as indices
from kernelblaster.policies.expert.index import Index

POOLS = tuple(
    f"{kind}_pool{n}d{end}" for n in (2, 3) for kind, end in (("avg", ""), ("max", "_with_indices"))
)


@dataclass(frozen=True)
class WindowCount:
    """A formula for the number of windows along a dimension with `extent` elements: (factor * extent +
    offset) / divisor, rounded down. An object is called with the extent as a number; its method `of` takes a
    symbolic extent."""

    factor: int
    offset: int
    divisor: int

    def __call__(self, extent: int) -> int:
        return (self.factor * extent + self.offset) // self.divisor

    def of(self, extent: Index) -> Index:
        scaled = indices.multiply(indices.number(self.factor), extent)
        return indices.divide(indices.add(scaled, indices.number(self.offset)), indices.number(self.divisor))


def window_counts(operator: str, arguments: Mapping[str, Any]) -> list[WindowCount]:
    """Returns, for each spatial dimension of a convolution or pooling, the formula that gives the extent of
    the result from that of the operand; empty for other operators. `arguments` are those of the call, named
    as in the operator's schema, with tensors as TracedValues."""
    name = operator.partition(".")[0]
    if name == "convolution":
        return list(_convolution(arguments))
    return list(_pool(arguments, 3 if "3d" in name else 2)) if name in POOLS else []


def _convolution(arguments: Mapping[str, Any]) -> Iterator[WindowCount]:
    taps = arguments["weight"].tensor.shape[2:]
    names = ("stride", "padding", "dilation", "output_padding")
    rows = zip(taps, *(_each(arguments[name], len(taps)) for name in names), strict=True)
    for count, stride, padding, dilation, more in rows:
        reach = dilation * (count - 1) + 1 - 2 * padding
        if arguments["transposed"]:
            yield WindowCount(stride, reach + more - stride, 1)
        else:
            yield WindowCount(1, stride - reach, stride)


def _pool(arguments: Mapping[str, Any], dimensions: int) -> Iterator[WindowCount]:
    """The formula of a pooling for each dimension. With ceil_mode, a window may reach past the operand, but
    must begin in it or in the padding before."""
    taps = _each(arguments["kernel_size"], dimensions)
    strides = _each(arguments["stride"] or taps, dimensions)
    rest = (_each(arguments.get(name, 1), dimensions) for name in ("padding", "dilation"))
    for count, stride, padding, dilation in zip(taps, strides, *rest, strict=True):
        reach = dilation * (count - 1) + 1 - 2 * padding
        offset = stride - reach
        if arguments["ceil_mode"]:
            offset = min(offset, padding) + stride - 1
        yield WindowCount(1, offset, stride)


def _each(given: Any, count: int) -> list[int]:
    listed = list(given) if isinstance(given, list | tuple) else [given]
    return listed * count if len(listed) == 1 else listed
