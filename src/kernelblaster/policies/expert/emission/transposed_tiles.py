"""Emits pointwise kernels in which some tensors are contiguous along another axis than the result; these are
transposed in shared memory.

A block processes a square tile over the two axes: it reads along the one in which the tensors are contiguous,
then computes and writes along the other.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kernelblaster.policies.expert import index as indices
from kernelblaster.policies.expert.axis import Axis
from kernelblaster.policies.expert.cuda.source import Emitted
from kernelblaster.policies.expert.cuda.statements import (
    BARRIER,
    Statement,
    assign,
    const,
    constexpr,
    consts,
    loop,
    shared,
    when,
)
from kernelblaster.policies.expert.cuda.terms import BLOCK, INT64, THREAD, UNSIGNED, Infix, Local, Term
from kernelblaster.policies.expert.emission.launch import launched
from kernelblaster.policies.expert.emission.places import local, unravel_term
from kernelblaster.policies.expert.emission.stores import store_statement
from kernelblaster.policies.expert.emission.values import Values, index_term, values_of
from kernelblaster.policies.expert.expression import Gather, Load
from kernelblaster.policies.expert.kernel import Kernel
from kernelblaster.policies.expert.plan import Plan
from kernelblaster.policies.expert.schedules.pointwise import STAGED_TILE, TransposedTiles
from kernelblaster.policies.expert.transposition import transposition
from kernelblaster.policies.expert.vector_access import fits

SCHEDULES = (TransposedTiles,)
ROW, COLUMN, WARPS = local("row", "column", "WARPS")


@dataclass(frozen=True)
class _StagedValues(Values):
    staged: Mapping[Load, str] = field(default_factory=dict)

    def element(self, load: Load | Gather) -> Term:
        if isinstance(load, Load) and load in self.staged:
            return Local(f"{self.staged[load]}_tile")[COLUMN][ROW]
        return super().element(load)


def emit(kernel: Kernel, plan: Plan) -> Emitted:
    found = transposition(kernel, plan)
    schedule, sizes = kernel.schedule, plan.sizes[0]
    assert found is not None and isinstance(schedule, TransposedTiles)  # the technique has looked
    last, other = found.kernel.axes[-1], found.other
    outer = [axis for axis in found.kernel.axes if axis not in (last, other)]
    plain = values_of(plan)
    values = _StagedValues(plain.buffers, plain.sizes, plain.real, staged=found.loads)
    tiles, others = indices.tiles(last.extent, STAGED_TILE), indices.tiles(other.extent, STAGED_TILE)
    blocks = indices.product([*(axis.extent for axis in outer), others, tiles])
    narrow = fits(plan, blocks)
    kind = UNSIGNED if narrow else INT64
    inside = Infix(
        "&&",
        *(Local(axis.name) < index_term(axis.extent, sizes) for axis in (other, last)),
    )
    reads = [
        assign(Local(f"{name}_tile")[ROW][COLUMN], plain.expression(load))
        for load, name in found.loads.items()
    ]
    stores = [store_statement(store, plan, values) for store in found.kernel.stores]
    tiles_, others_ = local("tiles", "others")
    body: list[Statement] = [
        constexpr("WARPS", schedule.threads // 32),
        *(
            shared(plain.type(load.kind), f"{n}_tile", STAGED_TILE, STAGED_TILE + 1)
            for load, n in found.loads.items()
        ),
        consts(kind, tiles=index_term(tiles, sizes), others=index_term(others, sizes)),
        const(INT64, f"{last.name}_first", BLOCK % tiles_ * STAGED_TILE),
        const(INT64, f"{other.name}_first", BLOCK / tiles_ % others_ * STAGED_TILE),
        *([const(kind, "place", BLOCK / tiles_ / others_)] if outer else []),
        *unravel_term(Local("place"), outer, {axis.name for axis in outer}, sizes, narrow=narrow),
        _over_tile(last, other, [when(inside, *reads)]),
        BARRIER,
        _over_tile(other, last, [when(inside, *stores)]),
    ]
    return launched(schedule.nest(tuple(outer), other, last), sizes, body)


def _over_tile(down: Axis, along: Axis, body: Sequence[Statement]) -> Statement:
    """The loops by which a block's threads go over its square tile of the axes `down` and `along`, with the
    statements `body` for each element; the lanes of a warp are neighbours along the axis `along`."""
    place = [
        const(INT64, down.name, Local(f"{down.name}_first") + ROW),
        const(INT64, along.name, Local(f"{along.name}_first") + COLUMN),
    ]
    columns = loop("column", THREAD % 32, STAGED_TILE, [*place, *body], step=32, unroll="all")
    return loop("row", THREAD / 32, STAGED_TILE, [columns], step=WARPS, unroll="all")
