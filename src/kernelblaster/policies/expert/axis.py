"""Axes: the loops of a planned kernel. Each has the name of a variable, and a symbolic extent."""

from dataclasses import dataclass

from kernelblaster.policies.expert import index as indices
from kernelblaster.policies.expert.index import Index


@dataclass(frozen=True)
class Part:
    """Says that the iterations of a loop are cut into pieces, as in split-K. A piece has `length` iterations.
    The loop itself runs over one piece; another loop of the kernel, whose variable is `name`, counts the
    pieces."""

    name: str
    length: Index


@dataclass(frozen=True)
class Axis:
    """A loop of a planned kernel: its variable `name`, and its `extent`, the number of iterations. If `part`
    is given, the iterations are cut into pieces, as in split-K, and the loop runs over only one of them, from
    the property `begin` to below the property `end`. Another loop, whose variable is `part.name`, counts the
    pieces. The last pieces may be empty."""

    name: str
    extent: Index
    part: Part | None = None

    @property
    def begin(self) -> Index:
        if self.part is None:
            return indices.ZERO
        return indices.multiply(indices.variable(self.part.name), self.part.length)

    @property
    def end(self) -> Index:
        if self.part is None:
            return self.extent
        return indices.least(self.extent, indices.add(self.begin, self.part.length))

    @property
    def index(self) -> Index:
        """The loop's variable as a symbolic index; the constant 0 if the loop has only one iteration."""
        return indices.ZERO if self.once else indices.variable(self.name)

    @property
    def once(self) -> bool:
        return indices.is_number(self.extent, 1)
