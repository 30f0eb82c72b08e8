"""Emits reductions and matrix products in their first layout, before any technique: each result is computed
by one thread, or by all threads of a block.

The kernel loops over the elements once for each of its reductions (stages), and once more to compute values
that are stored for every element. Techniques replace this layout by others, which other files emit: rows.py,
columns.py, tiled_product.py.
"""

from kernelblaster.policies.expert.cuda.source import Emitted
from kernelblaster.policies.expert.cuda.statements import Return, Statement, assign, const, loop, when
from kernelblaster.policies.expert.cuda.terms import BLOCK, BLOCK_THREADS, INT64, THREAD, Local, cast
from kernelblaster.policies.expert.emission.accumulators import accumulators
from kernelblaster.policies.expert.emission.functions import block_reduce
from kernelblaster.policies.expert.emission.launch import launched
from kernelblaster.policies.expert.emission.places import count, nested, running
from kernelblaster.policies.expert.emission.stores import store_statement
from kernelblaster.policies.expert.emission.values import Values, values_of
from kernelblaster.policies.expert.kernel import Kernel
from kernelblaster.policies.expert.plan import Plan
from kernelblaster.policies.expert.schedules.columns import ThreadPerColumn
from kernelblaster.policies.expert.schedules.products import ThreadPerResult
from kernelblaster.policies.expert.schedules.recurrences import StepPerLaunch
from kernelblaster.policies.expert.schedules.rows import BlockPerRow

SCHEDULES = (BlockPerRow, ThreadPerColumn, ThreadPerResult, StepPerLaunch)


def emit(kernel: Kernel, plan: Plan) -> Emitted:
    if isinstance(kernel.schedule, BlockPerRow):
        return _by_block(kernel, kernel.schedule, plan)
    assert isinstance(kernel.schedule, ThreadPerColumn | ThreadPerResult | StepPerLaunch)
    return _by_thread(kernel, kernel.schedule, plan)


def _by_thread(
    kernel: Kernel, schedule: ThreadPerColumn | ThreadPerResult | StepPerLaunch, plan: Plan
) -> Emitted:
    sizes, values = plan.sizes[0], values_of(plan)
    total = count((axis.extent for axis in kernel.axes), sizes)
    first, declared = running("i", kernel.axes, sizes)
    body: list[Statement] = [
        const(INT64, first, BLOCK * cast(INT64, BLOCK_THREADS) + THREAD),
        when(Local(first) >= total, Return()),
        *declared,
    ]
    for a in accumulators(kernel, plan):
        body.append(a.declared())
        body += nested(kernel.reduced, sizes, a.take(a.name, values.expression(a.stage.body)))
        body.append(a.result(a.name))
    each = _stores(kernel, plan, values, each=True)
    body += nested(kernel.reduced, sizes, each) if each else []
    body += _stores(kernel, plan, values, each=False)
    return launched(schedule.nest(kernel.axes, kernel.reduced), sizes, body)


def _by_block(kernel: Kernel, schedule: BlockPerRow, plan: Plan) -> Emitted:
    sizes, values = plan.sizes[0], values_of(plan)
    first, body = running("i", kernel.axes, sizes)
    if kernel.axes:
        body.insert(0, const(INT64, first, BLOCK))
    length = count((axis.extent for axis in kernel.reduced), sizes)
    name, place = running("j", kernel.reduced, sizes)

    def over_row(inside: list[Statement]) -> Statement:
        return loop(name, THREAD, length, [*place, *inside], step=BLOCK_THREADS, type_=INT64)

    for a in accumulators(kernel, plan):
        body.append(a.declared())
        body.append(over_row(a.take(a.name, values.expression(a.stage.body))))
        body.append(assign(a.name, block_reduce(a.name, a.join)))
        body.append(a.result(a.name))
    each = _stores(kernel, plan, values, each=True)
    body += [over_row(each)] if each else []
    once = _stores(kernel, plan, values, each=False)
    body += [when(THREAD.equals(0), *once)] if once else []
    return launched(schedule.nest(kernel.axes, kernel.reduced), sizes, body)


def _stores(kernel: Kernel, plan: Plan, values: Values, *, each: bool) -> list[Statement]:
    return [store_statement(store, plan, values) for store in kernel.stores if bool(store.over) == each]
