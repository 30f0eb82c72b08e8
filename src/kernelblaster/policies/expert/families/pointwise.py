"""Pointwise: one thread for each element, or for a few neighbouring ones that it moves at once."""

from dataclasses import replace

from kernelblaster.policies.expert import emit as emitting
from kernelblaster.policies.expert.device_code import device_code
from kernelblaster.policies.expert.expression import Counted, Gather, Load, walk
from kernelblaster.policies.expert.families import rows, transposed
from kernelblaster.policies.expert.families.assign import assign
from kernelblaster.policies.expert.families.loops import indented, unravel
from kernelblaster.policies.expert.families.near import VECTOR_BYTES
from kernelblaster.policies.expert.index import Index, names
from kernelblaster.policies.expert.plan import Kernel, Plan
from kernelblaster.policies.expert.render import Renderer
from kernelblaster.records.signature import DTYPE_BYTES
from kernelblaster.tasks.header import C_TYPES

FAMILIES = ("pointwise",)


def emit(kernel: Kernel, plan: Plan) -> emitting.Emitted:
    if kernel.schedule.staged:
        return transposed.emit(kernel, plan)
    if kernel.schedule.workers != "thread":
        return rows.emit(kernel, plan)
    total = emitting.count([axis.extent for axis in kernel.axes])
    threads, width = kernel.schedule.threads, kernel.schedule.vector_width
    if width == 1:
        lines = [
            "const int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;",
            f"if (i >= {total}) return;",
            *_element(kernel, plan, emitting.renderer(plan)),
        ]
        return emitting.Emitted(lines, f"({total} + {threads - 1}) / {threads}", threads)
    each = threads * width * kernel.schedule.coarsening
    blocks = f"({total} + {each - 1}) / {each}"
    helpers = ("pack", "streaming") if kernel.schedule.streaming else ("pack",)
    found = tuple(device_code(name) for name in helpers)
    return emitting.Emitted(_packed(kernel, plan, total), blocks, threads, found)


def whole_position(kernel: Kernel, plan: Plan) -> tuple[Index, ...] | None:
    """The position at which all tensors of the result's shape are walked in order, if they are."""
    whole = tuple(axis.index for axis in kernel.axes)
    shape = tuple(axis.extent for axis in kernel.axes)
    flat = [load.buffer for load in kernel.loads() if load.position == whole] + kernel.writes
    return whole if all(plan.buffers[name].shape == shape for name in flat) else None


def flat(kernel: Kernel, plan: Plan) -> bool:
    """Whether all that the kernel reads moves in order with what it writes, or not at all."""
    whole = whole_position(kernel, plan)
    return whole is not None and not _variables(kernel, whole)


def packed_width(kernel: Kernel, plan: Plan) -> int:
    """Elements of the widest type in 16 bytes; one where nothing is read in order."""
    moved = packable(kernel, plan)
    if not moved:
        return 1
    return VECTOR_BYTES // max(DTYPE_BYTES[plan.buffers[name].dtype] for name in (*moved, *kernel.writes))


def packable(kernel: Kernel, plan: Plan) -> list[str]:
    """Buffers that are read in order, so that neighbours can be read together."""
    whole = whole_position(kernel, plan)
    found = [load for load in kernel.loads() if whole and load.position == whole]
    return list(dict.fromkeys(load.buffer for load in found if isinstance(load, Load)))


def _element(kernel: Kernel, plan: Plan, render: Renderer) -> list[str]:
    """CUDA statements that compute and store the element with the linear index `i`."""
    whole = whole_position(kernel, plan)
    render = replace(render, whole=whole)
    lines = unravel("i", kernel.axes, _variables(kernel, whole))
    return lines + [assign(store, plan, render) for store in kernel.stores]


def _packed(kernel: Kernel, plan: Plan, total: str) -> list[str]:
    """All packs of a block, their loads before their stores; the last block does its elements singly."""
    chosen = kernel.schedule
    render = replace(emitting.renderer(plan), whole_form="{buffer}_pack.at[lane]")
    reads, writes = [], []
    for name in packable(kernel, plan):
        pack = f"Pack<{C_TYPES[plan.buffers[name].dtype]}, {chosen.vector_width}>"
        place = f"reinterpret_cast<const {pack}*>({name}) + start + k * {chosen.threads}"
        read = f"read_once({place})" if chosen.streaming else f"*({place})"
        reads.append((name, f"{pack} {name}_packs[{chosen.coarsening}];", f"{name}_packs[k] = {read};"))
    for name in kernel.writes:
        pack = f"Pack<{C_TYPES[plan.buffers[name].dtype]}, {chosen.vector_width}>"
        place = f"reinterpret_cast<{pack}*>({name}) + start + k * {chosen.threads}"
        write = f"write_once({place}, {name}_pack);" if chosen.streaming else f"*({place}) = {name}_pack;"
        writes.append((f"{pack} {name}_pack;", write))
    loop = ["#pragma unroll", f"for (int k = 0; k < {chosen.coarsening}; ++k) {{"]
    packs = [
        f"const int64_t start = blockIdx.x * (int64_t){chosen.threads * chosen.coarsening} + threadIdx.x;",
        *(line for _, line, _ in reads),
        *[*loop, *indented(line for _, _, line in reads), "}"],
        *[*loop, *(f"  const auto& {name}_pack = {name}_packs[k];" for name, _, _ in reads)],
        *indented(line for line, _ in writes),
        *["  #pragma unroll", f"  for (int lane = 0; lane < {chosen.vector_width}; ++lane) {{"],
        *indented(_element(kernel, plan, render), 2),
        "  }",
        *indented(line for _, line in writes),
        "}",
    ]
    single = _element(kernel, plan, emitting.renderer(plan))
    each = chosen.threads * chosen.coarsening * chosen.vector_width
    return [
        f"const int64_t first = blockIdx.x * (int64_t){each};",
        f"if (first + {each} <= {total}) {{",
        *indented(packs),
        "} else {",
        f"  for (int64_t i = first + threadIdx.x; i < {total}; i += {chosen.threads}) {{",
        *indented(single, 2),
        "  }",
        "}",
    ]


def _variables(kernel: Kernel, whole: tuple[Index, ...] | None) -> set[str]:
    """Axes that are mentioned other than as a whole position."""
    found: set[str] = set()
    for expression in kernel.expressions:
        for part in walk(expression):
            if isinstance(part, Load | Gather) and (part.position != whole or isinstance(part, Gather)):
                found = found.union(*(names(index) for index in part.position))
            elif isinstance(part, Counted):
                found |= names(part.index)
    for store in kernel.stores:
        if store.position != whole:
            found = found.union(*(names(index) for index in store.position))
    return found
