"""Reductions and normalizations: a thread, or the threads of a block together, for each result.

As first written, the stages follow one another over the same elements, and what is stored for each
element is written in a last pass. Techniques turn this into rows (rows.py) or columns (columns.py).
"""

from kernelblaster.policies.expert import emit as emitting
from kernelblaster.policies.expert.device_code import device_code
from kernelblaster.policies.expert.families import columns, rows
from kernelblaster.policies.expert.families.accumulators import accumulators, helpers
from kernelblaster.policies.expert.families.assign import assign
from kernelblaster.policies.expert.families.loops import indented, nested, running
from kernelblaster.policies.expert.plan import Kernel, Plan, Schedule
from kernelblaster.policies.expert.render import Renderer

FAMILIES = ("row_reduction", "column_reduction", "full_reduction")


def emit(kernel: Kernel, plan: Plan) -> emitting.Emitted:
    if kernel.schedule.workers == "tile":
        return columns.emit(kernel, plan)
    if is_rows(kernel):
        return rows.emit(kernel, plan)
    return _by_block(kernel, plan) if kernel.schedule.workers == "block" else _by_thread(kernel, plan)


def is_rows(kernel: Kernel) -> bool:
    """Whether any technique has changed how a block reduces."""
    chosen = kernel.schedule
    plain = Schedule(threads=chosen.threads, workers="block", accumulate=chosen.accumulate)
    cut = any(axis.part is not None for axis in kernel.reduced)
    return chosen.workers == "warp" or (chosen.workers == "block" and (chosen != plain or cut))


def _by_thread(kernel: Kernel, plan: Plan) -> emitting.Emitted:
    total = emitting.count([axis.extent for axis in kernel.axes])
    render = emitting.renderer(plan)
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
    threads = kernel.schedule.threads
    needed = [a for a in found if a.stage.combine not in ("sum", "product")]
    return emitting.Emitted(lines, f"({total} + {threads - 1}) / {threads}", threads, helpers(needed))


def _by_block(kernel: Kernel, plan: Plan) -> emitting.Emitted:
    render = emitting.renderer(plan)
    first, lines = running("i", kernel.axes)
    if kernel.axes:
        lines.insert(0, f"const int64_t {first} = blockIdx.x;")
    count = emitting.count([axis.extent for axis in kernel.reduced])
    j, declared = running("j", kernel.reduced)
    head = f"for (int64_t {j} = threadIdx.x; {j} < {count}; {j} += blockDim.x) {{"
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
    blocks = emitting.count([axis.extent for axis in kernel.axes])
    needed = (device_code("block_reduce"), *helpers(found))
    return emitting.Emitted(lines, blocks, kernel.schedule.threads, needed)


def _stores(kernel: Kernel, plan: Plan, render: Renderer, *, each: bool) -> list[str]:
    return [assign(store, plan, render) for store in kernel.stores if store.each == each]
