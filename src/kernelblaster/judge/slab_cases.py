"""Chooses the kinds of values (random, huge, NaN, ...) for the parts of one large workload, so that one call
of a candidate tries many of them. The part of a workload that is compared is a box; it is cut into slices,
the slabs."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import cycle

from kernelblaster.judge.boxes import Box
from kernelblaster.judge.case import FEW_TERMS, Case
from kernelblaster.judge.cases import ALWAYS, AT_BASE, FAINT, VAST
from kernelblaster.records import Task
from kernelblaster.tasks.distributions import PLANTED, Distribution
from kernelblaster.tasks.domain import Domain

KINDS = 30  # kinds of values, one for each slab: as many as there are
SHARED_ELEMENTS = 1 << 25  # of tensors that slabs have in common, counted once for each
MOVED_BYTES = 16 << 20  # of all parameters: larger ones keep the module's own values
SLAB_OPERATIONS = 4e9  # of the reference on all slabs together


def slab_cases(
    task: Task,
    box: Box,
    operations: int,
    domain: Domain,
    rng: random.Random,
    again: bool,
) -> list[tuple[Box, Case]]:
    """Cuts `box` (the part of a workload of `task` that is compared) into slabs, each with a kind of values
    of its own. Returns pairs of a slab and the verification case that says which values it holds; `rng` draws
    the kinds. A kind is used only if an input that extends along the size at which the box is cut accepts it,
    as `domain` says; inputs that do not accept it keep the task file's own values. `operations` is how many
    arithmetic operations the reference needs for the whole workload; a box that would take more than 4
    billion of them (SLAB_OPERATIONS) is made smaller first. With `again`, the cases are for a candidate's
    second call: they have other scalars than the first call's, and other values in the inputs that all slabs
    share."""
    box = _bearable(task, box, operations)
    kinds = list(_kinds(task, box, domain, rng))
    parameters = sum(box.part.bytes(tensor) for tensor in task.signature.parameters)
    moved = rng.choice(domain.scalars) if again and domain.scalars else None
    common = Case(box.part, "written", moved=parameters <= MOVED_BYTES, scalars=moved)
    slabs = box.slabs(min(_most_slabs(task, box), len(kinds)))
    if box.split is None and not again:
        kinds = ["written"]
    shared = rng.choice(FEW_TERMS) if again else "written"
    return list(_with_kinds(task, slabs, kinds, domain, common, shared))


def cases_in_turns(task: Task, box: Box, operations: int, cases: Sequence[Case]) -> list[tuple[Box, Case]]:
    """Cuts `box` (a part of a workload of `task`) into slabs and gives them the verification `cases` in
    turns: after the last case, the first one follows. So certain kinds of values are tried again. Returns
    pairs of a slab and its case, a copy with the slab's sizes as workload. If there are more cases than
    slabs, the last cases are left out. `operations` is how many arithmetic operations the reference needs for
    the whole workload; a box that would take more than 4 billion of them (SLAB_OPERATIONS) is made smaller
    first."""
    box = _bearable(task, box, operations)
    slabs = box.slabs(_most_slabs(task, box))
    return [
        (slab, replace(case, workload=slab.part)) for slab, case in zip(slabs, cycle(cases), strict=False)
    ]


def all_of(task: Task, kind: Distribution, box: Box, domain: Domain) -> Case | None:
    """Returns a verification case of the given `kind` of values. The inputs with that kind are those that
    extend along the `split` of `box` (the size along which it can be cut) and that accept the kind, as
    `domain` says. All other inputs keep the task file's own values. None if no input gets the kind."""
    inputs: list[Distribution] = [
        kind if box.split in tensor.dims and domain.takes(position, kind) else "written"
        for position, tensor in enumerate(task.signature.input_tensors)
    ]
    return Case(box.part, kind, moved=False, inputs=tuple(inputs)) if kind in inputs else None


def _kinds(task: Task, box: Box, domain: Domain, rng: random.Random) -> Iterator[Distribution]:
    """Yields kinds of values in the order of their use: the task file's own; those with the largest and with
    very small values, by which a narrow range shows (VAST, FAINT); those by which coarse arithmetic shows in
    long sums; then all others. Each group is in random order. Only kinds that some input along the box's
    split accepts."""
    positions = [
        position
        for position, tensor in enumerate(task.signature.input_tensors)
        if box.split is None or box.split in tensor.dims
    ]

    def taken(row: Sequence[Distribution]) -> list[Distribution]:
        if box.split is None:  # some take long for a whole workload
            row = [kind for kind in row if kind not in (*PLANTED, *FEW_TERMS)]
        return [kind for kind in row if any(domain.takes(position, kind) for position in positions)]

    if box.split is not None:
        yield "written"
    for kinds in rng.sample((taken(VAST)[:1], taken(FAINT)), 2):
        if kinds:
            yield rng.choice(kinds)
    for row in (*rng.sample(AT_BASE, len(AT_BASE)), *rng.sample(ALWAYS, len(ALWAYS))):
        kind = rng.choice(row)
        if kind in taken(row):
            yield kind
    yield "written"


def _with_kinds(
    task: Task,
    boxes: Sequence[Box],
    kinds: Sequence[Distribution],
    domain: Domain,
    common: Case,
    shared: Distribution,
) -> Iterator[tuple[Box, Case]]:
    """Yields a case like `common` for each box, with the kind of values at the same position in `kinds`.
    Inputs that do not extend along the boxes' split get the kind `shared`, the same in all boxes. An input
    that does not accept its kind keeps the task file's own values."""
    for box, kind in zip(boxes, kinds, strict=False):
        wanted = [
            kind if box.split is None or box.split in tensor.dims else shared
            for tensor in task.signature.input_tensors
        ]
        inputs: tuple[Distribution, ...] = tuple(
            one if domain.takes(position, one) else "written" for position, one in enumerate(wanted)
        )
        yield box, replace(common, workload=box.part, distribution=kind, inputs=inputs)


def _most_slabs(task: Task, box: Box) -> int:
    """How many slabs (slices along its split) a box of this task's workload may be cut into: fewer where they
    share a large tensor, which is converted to float64 for each."""
    shared = sum(box.part.elements(t) for t in task.signature.read_tensors if box.split not in t.dims)
    return max(1, min(KINDS, SHARED_ELEMENTS // max(1, shared)))


def _bearable(task: Task, box: Box, operations: int) -> Box:
    """A box with at most as many indices along its split that computing the reference on it takes no more
    than SLAB_OPERATIONS arithmetic operations. `operations` are those of the whole workload."""
    if box.split is None:
        return box
    outputs = task.signature.outputs
    share = sum(box.part.elements(t) for t in outputs) / sum(box.workload.elements(t) for t in outputs)
    return box.with_at_most(int(len(box.chosen[box.split]) * SLAB_OPERATIONS / max(1.0, share * operations)))
