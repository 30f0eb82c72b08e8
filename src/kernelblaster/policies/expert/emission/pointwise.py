"""Pointwise: one thread for each element, or for a few neighbouring ones that it moves at once."""

from dataclasses import replace

from kernelblaster.policies.expert.device_code import device_code
from kernelblaster.policies.expert.emission.assign import assign
from kernelblaster.policies.expert.emission.emitted import Emitted
from kernelblaster.policies.expert.emission.loops import count, indented, unravel
from kernelblaster.policies.expert.emission.render import Renderer, renderer
from kernelblaster.policies.expert.flat_access import variables, vector_reads, whole_position
from kernelblaster.policies.expert.plan import Kernel, Plan
from kernelblaster.policies.expert.schedule import ElementPerThread, FlatVectors
from kernelblaster.tasks.header import C_TYPES

SCHEDULES = (ElementPerThread, FlatVectors)


def emit(kernel: Kernel, plan: Plan) -> Emitted:
    schedule = kernel.schedule
    total = count(axis.extent for axis in kernel.axes)
    if isinstance(schedule, FlatVectors):
        each = schedule.threads * schedule.vector_width * schedule.coarsening
        blocks = f"({total} + {each - 1}) / {each}"
        helpers = ("pack", "streaming") if schedule.streaming else ("pack",)
        lines = _vectors(kernel, schedule, plan, total)
        return Emitted(lines, blocks, schedule.threads, tuple(map(device_code, helpers)))
    assert isinstance(schedule, ElementPerThread)
    lines = [
        "const int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;",
        f"if (i >= {total}) return;",
        *_element(kernel, plan, renderer(plan)),
    ]
    threads = schedule.threads
    return Emitted(lines, f"({total} + {threads - 1}) / {threads}", threads)


def _element(kernel: Kernel, plan: Plan, render: Renderer) -> list[str]:
    """CUDA statements that compute and store the element with the linear index `i`."""
    whole = whole_position(kernel, plan)
    render = replace(render, whole=whole)
    lines = unravel("i", kernel.axes, variables(kernel, whole))
    return lines + [assign(store, plan, render) for store in kernel.stores]


def _vectors(kernel: Kernel, chosen: FlatVectors, plan: Plan, total: str) -> list[str]:
    """All vectors of a block, their loads before their stores; the last block does its elements singly."""
    render = replace(renderer(plan), whole_form="{buffer}_pack.at[lane]")
    reads, writes = [], []
    for name in vector_reads(kernel, plan):
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
    single = _element(kernel, plan, renderer(plan))
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
