"""Finds the sizes that a module accepts, by trying. A dimension that can be changed alone is a size of its
own. Dimensions that can be changed only together share one size. A dimension that cannot be changed is fixed
by the module's construction."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations

Shapes = tuple[tuple[int, ...], ...]
Dimension = tuple[int, int]


@dataclass(frozen=True)
class FreeSize:
    """A size that can vary. `dimensions` are the dimensions of inputs that have this size and must be changed
    together, each as (number of the input tensor, axis). `value` is their extent in the file's inputs,
    `other` another extent that the module accepted."""

    dimensions: tuple[Dimension, ...]
    value: int
    other: int

    @property
    def step(self) -> int:
        """The distance between the two values that the module accepted: further values are tried at multiples
        of it."""
        return abs(self.other - self.value)


class Probe:
    """Tries which input shapes a module accepts. `base` are the shapes of its own input tensors; `run`
    returns the output shapes for given input shapes, None if the module refuses them. Results are
    remembered."""

    def __init__(self, base: Shapes, run: Callable[[Shapes], Shapes | None]) -> None:
        self.base = base
        self._run = run
        self._seen: dict[Shapes, Shapes | None] = {}

    def outputs(self, shapes: Shapes) -> Shapes | None:
        """Returns the module's output shapes for the input shapes `shapes`. None if it refuses them, if an
        output would be empty, or if the number of outputs or their ranks differ from those at the base
        shapes. Each shape is tried once and then remembered."""
        if shapes not in self._seen:
            result = self._run(shapes)
            empty = result is not None and any(0 in shape for shape in result)
            self._seen[shapes] = None if empty else result
        result = self._seen[shapes]
        base = result if shapes == self.base or result is None else self.outputs(self.base)
        alike = base is None or result is None or [len(s) for s in base] == [len(s) for s in result]
        return result if alike else None

    def with_sizes(self, sizes: list[tuple[FreeSize, int]], start: Shapes | None = None) -> Shapes:
        """Returns the input shapes `start` (None: those of the module's own inputs) in which each free size
        of `sizes` has the value that is paired with it. Does not try whether the module accepts them."""
        changed = [list(shape) for shape in (start or self.base)]
        for size, value in sizes:
            for tensor, axis in size.dimensions:
                changed[tensor][axis] = value
        return tuple(tuple(shape) for shape in changed)

    def accepts(self, dimensions: list[Dimension], value: int) -> bool:
        """True if the module runs when all of `dimensions`, as (number of the input tensor, axis), have the
        extent `value` and all other extents are as in the module's own inputs."""
        changed = [list(shape) for shape in self.base]
        for tensor, axis in dimensions:
            changed[tensor][axis] = value
        return self.outputs(tuple(tuple(shape) for shape in changed)) is not None

    def free_sizes(self, equal_elsewhere: Shapes | None = None) -> list[FreeSize]:
        """Returns every free size (dimensions that the module lets vary), in the order of the inputs'
        dimensions. A dimension is tried alone, then together with others of the same extent, since these may
        be the same size. `equal_elsewhere` has the input shapes of the same module built with other
        constants: dimensions whose extents differ there are different sizes, and are not tried together.
        None: there are no such shapes."""
        pending = [(t, a) for t, shape in enumerate(self.base) for a in range(len(shape))]
        sizes: list[FreeSize] = []
        while pending:
            dimension = pending.pop(0)
            equal = [d for d in pending if self._alike(d, dimension, equal_elsewhere)]
            size = self._free_size(dimension, equal)
            if size is not None:
                sizes.append(size)
                pending = [d for d in pending if d not in size.dimensions]
        return sizes

    def _alike(self, one: Dimension, other: Dimension, elsewhere: Shapes | None) -> bool:
        """Whether two dimensions have equal extents in the module's own input shapes, and in the shapes
        `elsewhere` if given."""
        bases = (self.base, elsewhere) if elsewhere else (self.base,)
        return all(shapes[one[0]][one[1]] == shapes[other[0]][other[1]] for shapes in bases)

    def _free_size(self, dimension: Dimension, equal: list[Dimension]) -> FreeSize | None:
        """The free size that `dimension` belongs to: alone, or changed together with some of `equal`, the
        dimensions of the same extent. None if the module accepts no other extent, or the extent is 1."""
        value = self.base[dimension[0]][dimension[1]]
        if value == 1:
            return None  # a broadcast dimension: another extent would mean something else
        for other in alternatives(value):
            for group in _groups(equal):
                if self.accepts([dimension, *group], other):
                    return FreeSize((dimension, *group), value, other)
        return None

    def choose(self, sizes: list[FreeSize], wishes: "Wishes") -> Shapes:
        """Returns input shapes for a workload. The free sizes get their values one after another.
        `wishes(position, size)` returns the values to try for one size, best first; `position` is its number
        in `sizes`. The size gets the first value that the module accepts together with those chosen before.
        If none is accepted, it keeps its own value."""
        shapes = self.base
        for position, size in enumerate(sizes):
            for value in wishes(position, size):
                trial = self.with_sizes([(size, value)], shapes)
                if self.outputs(trial) is not None:
                    shapes = trial
                    break
        return shapes


Wishes = Callable[[int, FreeSize], list[int]]  # by the place among the free sizes: values to try, best first


def _groups(equal: list[Dimension]) -> list[tuple[Dimension, ...]]:
    """Returns subsets of `equal` (dimensions of the same extent), to be changed together with one more
    dimension, in the order in which to try them: first the empty one; then all of one, two or three
    dimensions, unless there are more than ten dimensions; last, all dimensions."""
    groups: list[tuple[Dimension, ...]] = [()]
    for count in range(1, 4):
        if len(equal) <= 10:
            groups += combinations(equal, count)
    return [*groups, tuple(equal)]


def alternatives(value: int) -> list[int]:
    """Returns extents to try instead of `value`, to see whether a dimension can vary, in this order: 1 and 2
    more, 1 less, 4, 8 and 16 more, then double and half. All are positive."""
    wishes = [value + d for d in (1, 2, -1, 4, 8, 16)] + [value * 2, value // 2]
    return [w for w in dict.fromkeys(wishes) if w > 0 and w != value]


def odd_sizes(position: int, size: FreeSize) -> list[int]:
    """Returns values to try for a free size in the "odd" workload, whose sizes are used for verification but
    not timed; best first. First come odd numbers, from about a third of the size's value on. They begin
    differently for each `position`, the size's number among the free sizes. Then come values that differ from
    the size's own by multiples of `size.step`."""
    target = max(1, int(size.value * (0.37 - 0.03 * (position % 4)))) | 1
    odd = [target + 2 * k for k in range(8)]
    stepped = [size.value - size.step * k for k in range(1, 1 + size.value // size.step)]
    stepped.sort(key=lambda v: abs(v - target))
    return [v for v in odd + stepped[:24] if 0 < v < max(size.value, 4)]


def near_sizes(position: int, size: FreeSize) -> list[int]:
    """Returns values to try for a free size in the "near" workload, whose sizes lie just beside the timed
    ones and serve verification; best first. The first is the size's value minus 1, 3 or 5. Which of these it
    is depends on `position`, the size's number among the free sizes, so that neighbouring sizes differ. Then
    come other close values, and the value one `size.step` away."""
    deltas = (-1 - 2 * (position % 3), -1, 1, -2, 2, -4, 4, -size.step, size.step)
    return [size.value + d for d in deltas if size.value + d > 0]


def tiny_sizes(position: int, size: FreeSize) -> list[int]:
    """Returns values to try for a free size in the "tiny" workload, which serves verification; best first.
    All are below the size's value and at most 128. The order begins differently for each `position`, the
    size's number among the free sizes, so that neighbouring sizes differ."""
    small = [3, 5, 2, 7, 4]
    start = position % len(small)
    wishes = small[start:] + small[:start] + [6, 8, 9, 11, 12, 16, 17, 24, 32, 48, 64, 128]
    return [v for v in wishes if v < size.value]


def small_sizes(position: int, size: FreeSize) -> list[int]:
    """Returns values to try for a free size in the small workload, which the emulator runs, best first. All
    are below the size's value and at most 128, in a fixed order that begins with numbers that are no powers
    of two (17, 9, 24). `position` is unused."""
    return [v for v in (17, 9, 24, 16, 12, 8, 5, 4, 3, 2, 32, 48, 64, 128) if v < size.value]
