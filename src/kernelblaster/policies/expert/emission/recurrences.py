"""Emits the kernel of one time step of a recurrent layer (LSTM, GRU, RNN) in the layout `StepByWarps`, in
which the lanes of a warp share the terms of each sum."""

from kernelblaster.devices.occupancy import WARP
from kernelblaster.policies.expert import index as indices
from kernelblaster.policies.expert.cuda.source import Emitted
from kernelblaster.policies.expert.cuda.statements import (
    Return,
    Statement,
    assign,
    const,
    consts,
    loop,
    unrolled,
    when,
)
from kernelblaster.policies.expert.cuda.terms import BLOCK, INT, INT64, THREAD, call, cast
from kernelblaster.policies.expert.emission.accumulators import accumulators
from kernelblaster.policies.expert.emission.functions import warp_reduce
from kernelblaster.policies.expert.emission.launch import launched
from kernelblaster.policies.expert.emission.places import local
from kernelblaster.policies.expert.emission.stores import store_statement
from kernelblaster.policies.expert.emission.values import index_term, values_of
from kernelblaster.policies.expert.kernel import Kernel
from kernelblaster.policies.expert.plan import Plan
from kernelblaster.policies.expert.schedules.recurrences import StepByWarps

SCHEDULES = (StepByWarps,)
LANE, BLOCKS, FIRST, R = local("lane", "blocks", "first_row", "r")


def emit(kernel: Kernel, plan: Plan) -> Emitted:
    schedule = kernel.schedule
    assert isinstance(schedule, StepByWarps)
    sizes, values = plan.sizes[0], values_of(plan)
    batch, features = kernel.axes
    (k,) = kernel.reduced
    row, feature = local(batch.name, features.name)
    rows, width = (index_term(axis.extent, sizes) for axis in (batch, features))
    warps = schedule.threads // WARP
    sums = accumulators(kernel, plan)
    nest = schedule.nest((batch,), (features,), (k,))
    each = [take for a in sums for take in a.take(a.name[R], values.expression(a.stage.body))]
    results: list[Statement] = [
        *(assign(a.name[R], warp_reduce(a.name[R], a.join)) for a in sums),
        const(INT64, batch.name, FIRST + R),
        when(
            LANE.equals(R),
            when(
                row < rows,
                *(a.result(a.name[R]) for a in sums),
                *(store_statement(store, plan, values) for store in kernel.stores),
            ),
        ),
    ]
    body: list[Statement] = [
        const(INT64, "blocks", index_term(indices.tiles(features.extent, warps), sizes)),
        const(INT64, "first_row", BLOCK / BLOCKS * schedule.rows),
        const(INT64, features.name, BLOCK % BLOCKS * warps + THREAD / WARP),
        when(feature >= width, Return()),
        consts(INT, lane=THREAD % WARP),
        *(a.declared(schedule.rows) for a in sums),
        unrolled("r", schedule.rows, [assign(a.name[R], a.start) for a in sums]),
        loop(
            k.name,
            LANE,
            index_term(k.extent, sizes),
            [
                unrolled(
                    "r",
                    schedule.rows,
                    [const(INT64, batch.name, call("min", cast(INT64, FIRST + R), rows - 1)), *each],
                )
            ],
            step=WARP,
            type_=INT64,
        ),
        unrolled("r", schedule.rows, results),
    ]
    return launched(nest, sizes, body)
