"""Reductions and products as first written: a thread, or the threads of a block together, for each result.

The stages follow one another over the same elements, and what is stored for each element is written in a last
pass. Techniques turn this into rows (rows.py), columns (columns.py) or tiles (tiled_product.py).
"""

from kernelblaster.policies.expert.device_code import device_code
from kernelblaster.policies.expert.emission.accumulators import accumulators, helpers
from kernelblaster.policies.expert.emission.assign import assign
from kernelblaster.policies.expert.emission.emitted import Emitted
from kernelblaster.policies.expert.emission.loops import count, indented, nested, running
from kernelblaster.policies.expert.emission.render import Renderer, renderer
from kernelblaster.policies.expert.plan import Kernel, Plan
from kernelblaster.policies.expert.schedule import BlockPerRow, ThreadPerColumn, ThreadPerResult

SCHEDULES = (BlockPerRow, ThreadPerColumn, ThreadPerResult)


def emit(kernel: Kernel, plan: Plan) -> Emitted:
    if isinstance(kernel.schedule, BlockPerRow):
        return _by_block(kernel, kernel.schedule.threads, plan)
    assert isinstance(kernel.schedule, ThreadPerColumn | ThreadPerResult)
    return _by_thread(kernel, kernel.schedule.threads, plan)


def _by_thread(kernel: Kernel, threads: int, plan: Plan) -> Emitted:
    total = count(axis.extent for axis in kernel.axes)
    render = renderer(plan)
    first, declared = running("i", kernel.axes)
    lines = [
        f"const int64_t {first} = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;",
        f"if ({first} >= {total}) return;",
        *declared,
    ]
    found = accumulators(kernel, plan)
    for a in found:
        lines.append(f"{a.type} {a.name} = {a.start};")
        lines += nested(kernel.reduced, a.take(a.name, render.expression(a.stage.body)))
        lines.append(a.result(a.name))
    each = _stores(kernel, plan, render, each=True)
    lines += nested(kernel.reduced, each) if each else []
    lines += _stores(kernel, plan, render, each=False)
    needed = [a for a in found if a.stage.combine not in ("sum", "product")]
    return Emitted(lines, f"({total} + {threads - 1}) / {threads}", threads, helpers(needed))


def _by_block(kernel: Kernel, threads: int, plan: Plan) -> Emitted:
    render = renderer(plan)
    first, lines = running("i", kernel.axes)
    if kernel.axes:
        lines.insert(0, f"const int64_t {first} = blockIdx.x;")
    length = count(axis.extent for axis in kernel.reduced)
    j, declared = running("j", kernel.reduced)
    head = f"for (int64_t {j} = threadIdx.x; {j} < {length}; {j} += blockDim.x) {{"
    place = indented(declared)
    found = accumulators(kernel, plan)
    for a in found:
        step = a.take(a.name, render.expression(a.stage.body))
        lines.append(f"{a.type} {a.name} = {a.start};")
        lines += [head, *place, *indented(step), "}"]
        lines.append(f"{a.name} = block_reduce({a.name}, {a.functor}());")
        lines.append(a.result(a.name))
    each = _stores(kernel, plan, render, each=True)
    if each:
        lines += [head, *place, *indented(each), "}"]
    once = _stores(kernel, plan, render, each=False)
    if once:
        lines += ["if (threadIdx.x == 0) {", *indented(once), "}"]
    blocks = count(axis.extent for axis in kernel.axes)
    needed = (device_code("block_reduce"), *helpers(found))
    return Emitted(lines, blocks, threads, needed)


def _stores(kernel: Kernel, plan: Plan, render: Renderer, *, each: bool) -> list[str]:
    return [assign(store, plan, render) for store in kernel.stores if store.each == each]
