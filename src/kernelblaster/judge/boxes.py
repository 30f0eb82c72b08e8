"""Boxes: a box is a part of a workload that is too large to check whole. The reference's outputs for it are
computed from a few rows of the inputs.

This works along independent sizes: those along which outputs do not depend on each other, like a batch
(tasks/independence.py finds them). A box is a list of indices along each independent size. The reference's
outputs at these indices are computed from the inputs at the same indices, however large the whole workload
is. Each row may be filled with another kind of values (zeros, large, negated), so one run tests several
kinds.
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
    """A part of a workload that is compared with the reference by itself. Independent sizes are those along
    which outputs do not depend on each other, like a batch. For each of these, `chosen` has the indices that
    belong to the box, by the size's name; along all other sizes, all indices belong to it. `split` is the
    size along which `slabs` cuts the box into pieces. It is None if the box is the whole workload: such a box
    is not cut."""

    workload: Workload
    chosen: dict[str, torch.Tensor]
    split: str | None = None

    @property
    def part(self) -> Workload:
        """The box as a workload of its own. Along an independent size, its extent is the number of indices in
        the box. Along any other size, its extent is the whole workload's."""
        sizes = self.workload.sizes | {name: len(indices) for name, indices in self.chosen.items()}
        return self.workload.model_copy(update={"sizes": sizes})

    def with_at_most(self, count: int) -> "Box":
        """Returns a smaller box, which has only `count` (at least one) of this box's indices along the size
        `split` (the one along which the box can be cut), evenly spaced. Returns this box itself if it has no
        more indices than that, or if `split` is None."""
        if self.split is None or len(self.chosen[self.split]) <= max(1, count):
            return self
        indices = self.chosen[self.split]
        kept = indices[torch.linspace(0, len(indices) - 1, max(1, count)).long()]
        return Box(self.workload, self.chosen | {self.split: kept}, self.split)

    def slabs(self, most: int) -> list["Box"]:
        """Cuts the box into at most `most` smaller boxes (slabs) along the size `split`, the largest
        independent one. All slabs have equally many indices of that size; if they cannot be divided equally,
        the last few indices are in none of the slabs. If there are fewer indices than `most`, each has a slab
        of its own. If `split` is None, returns only the box itself."""
        if self.split is None:
            return [self]
        indices = self.chosen[self.split]
        count = max(1, min(most, len(indices)))
        rows = len(indices) // count
        parts = (indices[k * rows : (k + 1) * rows] for k in range(count))
        return [Box(self.workload, self.chosen | {self.split: part}, self.split) for part in parts]


def whole_box(workload: Workload) -> Box:
    """Returns the box that covers every index of a workload. Its `split` is None, so it cannot be cut into
    slabs."""
    return Box(workload, {})


def drawn_box(signature: Signature, workload: Workload, independent: tuple[str, ...], rng: Random) -> Box:
    """Returns a box for a `workload` of a task with this `signature`. Along each of the `independent` sizes,
    it has a window of neighbouring indices at each of six places: the first index, the last one, and four
    that `rng` draws. A window has 64 indices. Along the largest independent size it has 4 to 96: the fewer,
    the more output elements belong to one index; and fewer than 4 if the box would otherwise read more than 8
    million (MOST_READ) input elements. If `independent` is empty, the box is the whole workload."""
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
    """Returns the box around the output elements at `places`, which a candidate wrote in a call at
    `workload`. Each of `places` is one element: its index along every independent size, by the size's name,
    like {"batch": 7}. Along each of the `independent` sizes, the box has a window of neighbouring indices at
    each place, as wide as in `drawn_box`. `signature` is that of the task."""
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


def rows_box(signature: Signature, box: Box, rows: torch.Tensor, most: int, rng: Random) -> Box:
    """Returns a box like `box`, but with indices from `rows` along `split`, the size along which it can be
    cut. `rows` (ascending) is divided into runs as long as a window of `drawn_box`. `rng` picks at least one
    and at most `most` of the runs; fewer if they would read more than 8 million (MOST_READ) input elements.
    Returns `box` itself if it has no `split`, or `rows` is empty."""
    split = box.split
    if split is None or not len(rows):
        return box
    width = _width(signature, box.workload, split, split)
    read = box.part.model_copy(update={"sizes": box.part.sizes | {split: 1}})
    each = sum(prod(read.shape(t)) for t in signature.input_tensors if split in t.dims)
    count = max(1, min(most, len(rows) // width, MOST_READ // max(1, each * width)))
    begins = sorted(rng.sample(range(max(1, len(rows) // width)), count))
    taken = torch.cat([rows[at * width : (at + 1) * width] for at in begins])
    return Box(box.workload, box.chosen | {split: taken}, split)


def places_of(
    tensor: Tensor, workload: Workload, independent: tuple[str, ...], flat: torch.Tensor
) -> list[dict[str, int]]:
    """Returns where elements of the output `tensor`, in a call at `workload`, lie along the `independent`
    sizes. `flat` has the flat indices of the elements. The result has one dictionary for each, with its index
    along each of these sizes, by the size's name, like {"batch": 7}."""
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
    """How many neighbouring indices along the size `name` a box of this workload takes around each position:
    few where a row of `signature`'s tensors is large. `split` is the size along which the box is cut."""
    if name != split:
        return ALONG
    outputs = sum(prod(workload.shape(t)) for t in signature.outputs) // workload.sizes[split]
    inputs = [t for t in signature.input_tensors if split in t.dims]
    read = sum(prod(workload.shape(t)) for t in inputs) // workload.sizes[split]
    least = max(FEWEST, min(MOST, WANTED // max(1, outputs)))
    return max(1, min(least, MOST_READ // max(1, read * PICKS)))


def _around(places: list[int], extent: int, width: int) -> torch.Tensor:
    """The sorted indices, from 0 to below `extent`, of windows of `width` indices, one around each of the
    `places`; a window begins at a multiple of `width` where that fits."""
    indices: set[int] = set()
    for place in places:
        begin = max(0, min(place - place % width, extent - width))
        indices.update(range(begin, min(extent, begin + width)))
    return torch.tensor(sorted(indices))
