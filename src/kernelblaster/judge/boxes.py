"""Boxes: parts of a large workload that can be compared with the reference by themselves. A box is a list of
indices along each independent dimension, one along which outputs do not depend on each other (a batch).

Where a task's rows are independent (tasks/independence.py), the reference of some rows follows from these
rows of the inputs, however large the rest is. Each row may be
filled with another kind of values (zeros, large, negated), so that one run tests several kinds.
"""

from dataclasses import dataclass
from math import prod
from random import Random

import torch

from kernelblaster.records import Signature, Tensor, Workload

PICKS = 6  # places of a box along one size
ALONG = 64  # neighbours at each place, along sizes that are not split into slabs
FEWEST, MOST = 4, 96  # neighbours at each place along the size that is
WANTED = 1 << 12  # output elements of a slab
MOST_READ = 1 << 23  # input elements of a box that depend on it


@dataclass(frozen=True)
class Box:
    """A part of a workload: `chosen` indices along each independent size (one whose indices do not affect
    each other's results). `split` is the size along which `slabs` cuts it; None for a box that is the whole
    workload, which has one slab."""

    workload: Workload
    chosen: dict[str, torch.Tensor]
    split: str | None = None

    @property
    def part(self) -> Workload:
        """The workload that has the box's extents as its sizes."""
        sizes = self.workload.sizes | {name: len(indices) for name, indices in self.chosen.items()}
        return self.workload.model_copy(update={"sizes": sizes})

    def with_at_most(self, count: int) -> "Box":
        """The box with at most `count` indices along `split` (at least one), evenly chosen."""
        if self.split is None or len(self.chosen[self.split]) <= max(1, count):
            return self
        indices = self.chosen[self.split]
        kept = indices[torch.linspace(0, len(indices) - 1, max(1, count)).long()]
        return Box(self.workload, self.chosen | {self.split: kept}, self.split)

    def slabs(self, most: int) -> list["Box"]:
        """Up to `most` boxes of equal size that this one is cut into along `split`; a remainder is left out.
        The box itself if it has no split."""
        if self.split is None:
            return [self]
        indices = self.chosen[self.split]
        count = max(1, min(most, len(indices)))
        rows = len(indices) // count
        parts = (indices[k * rows : (k + 1) * rows] for k in range(count))
        return [Box(self.workload, self.chosen | {self.split: part}, self.split) for part in parts]


def whole_box(workload: Workload) -> Box:
    """A box that is all of a workload."""
    return Box(workload, {})


def drawn_box(signature: Signature, workload: Workload, independent: tuple[str, ...], rng: Random) -> Box:
    """A box of random positions along each independent size, with their neighbours; the first and the last
    index are always among them. All of the workload if no size is independent."""
    if not independent:
        return whole_box(workload)
    split = _split(workload, independent)
    chosen = {}
    for name in independent:
        extent = workload.sizes[name]
        drawn = [0, extent - 1, *(rng.randrange(extent) for _ in range(PICKS - 2))]
        chosen[name] = _around(drawn, extent, _width(signature, workload, name, split))
    return Box(workload, chosen, split)


def written_box(
    signature: Signature,
    workload: Workload,
    independent: tuple[str, ...],
    places: list[dict[str, int]],
) -> Box:
    """A box around `places`, positions of output elements that a candidate wrote: each gives the index along
    every independent size."""
    split = _split(workload, independent)
    chosen = {
        name: _around(
            [place[name] for place in places],
            workload.sizes[name],
            _width(signature, workload, name, split),
        )
        for name in independent
    }
    return Box(workload, chosen, split)


def places_of(
    tensor: Tensor, workload: Workload, independent: tuple[str, ...], flat: torch.Tensor
) -> list[dict[str, int]]:
    """For each element of the output `tensor` at these flat indices, its index along each independent size,
    by the size's name."""
    places = []
    for element in flat.tolist():
        place, rest = {}, element
        for name in reversed(tensor.dims):
            rest, index = divmod(rest, workload.sizes[name])
            if name in independent:
                place[name] = index
        places.append(place)
    return places


def _split(workload: Workload, independent: tuple[str, ...]) -> str:
    return max(independent, key=lambda name: workload.sizes[name])


def _width(signature: Signature, workload: Workload, name: str, split: str) -> int:
    """How many neighbouring indices a box takes around each position along the size `name`; `split` is the
    size along which it is cut."""
    if name != split:
        return ALONG
    outputs = sum(prod(workload.shape(t)) for t in signature.outputs) // workload.sizes[split]
    inputs = [t for t in signature.input_tensors if split in t.dims]
    read = sum(prod(workload.shape(t)) for t in inputs) // workload.sizes[split]
    least = max(FEWEST, min(MOST, WANTED // max(1, outputs)))
    return max(1, min(least, MOST_READ // max(1, read * PICKS)))


def _around(places: list[int], extent: int, width: int) -> torch.Tensor:
    """The sorted indices of a window of `width` indices around each place, within 0 to `extent` - 1."""
    indices: set[int] = set()
    for place in places:
        begin = max(0, min(place - place % width, extent - width))
        indices.update(range(begin, min(extent, begin + width)))
    return torch.tensor(sorted(indices))
