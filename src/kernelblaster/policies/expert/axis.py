"""Axes: the loops of a kernel."""

from dataclasses import dataclass

from kernelblaster.policies.expert import index as indices
from kernelblaster.policies.expert.index import Index


@dataclass(frozen=True)
class Part:
    """A piece of a reduced axis: `length` elements, counted by the kernel's axis of this name."""

    name: str
    length: Index


@dataclass(frozen=True)
class Axis:
    """A loop: its variable and how far it runs. With `part` it runs over one piece of that only, from
    `begin` to `end`; an axis of the kernel says which one (techniques/split_k.py). A piece may be
    empty."""

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
        """The loop's position; nothing to count where it runs only once."""
        return indices.ZERO if self.once else indices.variable(self.name)

    @property
    def once(self) -> bool:
        return indices.is_number(self.extent, 1)
