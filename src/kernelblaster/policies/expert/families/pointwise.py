"""Pointwise: one thread for each element, or for a few neighbouring ones that it moves at once."""

from dataclasses import replace

from kernelblaster.policies.expert import emit as emitting
from kernelblaster.policies.expert.expression import Counted, Gather, Load, walk
from kernelblaster.policies.expert.families.loops import unravel
from kernelblaster.policies.expert.index import Index, names
from kernelblaster.policies.expert.plan import Kernel, Plan
from kernelblaster.policies.expert.render import Renderer
from kernelblaster.tasks.header import C_TYPES

FAMILIES = ("pointwise",)
PACK = """\
// Neighbouring elements that are moved in one memory instruction.
template <typename T, int N>
struct alignas(N * sizeof(T)) Pack {
  T at[N];
};"""


def emit(kernel: Kernel, plan: Plan) -> emitting.Emitted:
    total = emitting.count([axis.extent for axis in kernel.axes])
    threads, width = kernel.schedule.threads, kernel.schedule.vector_width
    if width == 1:
        lines = [
            "const int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;",
            f"if (i >= {total}) return;",
            *_element(kernel, plan, emitting.renderer(plan)),
        ]
        return emitting.Emitted(lines, f"({total} + {threads - 1}) / {threads}", threads)
    lines = _packed(kernel, plan, total)
    blocks = f"({total} + {threads * width - 1}) / {threads * width}"
    return emitting.Emitted(lines, blocks, threads, (PACK,))


def whole_position(kernel: Kernel, plan: Plan) -> tuple[Index, ...] | None:
    """The position at which all tensors of the result's shape are walked in order, if they are."""
    whole = tuple(axis.index for axis in kernel.axes)
    shape = tuple(axis.extent for axis in kernel.axes)
    flat = [load.buffer for load in kernel.loads() if load.position == whole] + kernel.writes
    return whole if all(plan.buffers[name].shape == shape for name in flat) else None


def packable(kernel: Kernel, plan: Plan) -> list[str]:
    """Buffers that are read in order, so that neighbours can be read together."""
    whole = whole_position(kernel, plan)
    found = [load for load in kernel.loads() if whole and load.position == whole]
    return list(dict.fromkeys(load.buffer for load in found if isinstance(load, Load)))


def _element(kernel: Kernel, plan: Plan, render: Renderer) -> list[str]:
    """Statements that compute and store element `i`."""
    whole = whole_position(kernel, plan)
    render = replace(render, whole=whole)
    lines = unravel("i", kernel.axes, _variables(kernel, whole))
    for store in kernel.stores:
        kind = C_TYPES[plan.buffers[store.buffer].dtype]
        value = render.expression(store.value)
        place = render.place(store.buffer, store.position)
        lines.append(f"{place} = ({kind})({value});" if kind.startswith("__") else f"{place} = {value};")
    return lines


def _packed(kernel: Kernel, plan: Plan, total: str) -> list[str]:
    """Full packs by vector loads and stores; the few elements after the last one singly."""
    width = kernel.schedule.vector_width
    render = replace(emitting.renderer(plan), whole_form="{buffer}_pack.at[lane]")
    lines = [
        "const int64_t group = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;",
        f"if ((group + 1) * {width} <= {total}) {{",
    ]
    for name in packable(kernel, plan):
        pack = f"Pack<{C_TYPES[plan.buffers[name].dtype]}, {width}>"
        lines.append(f"  const {pack} {name}_pack = reinterpret_cast<const {pack}*>({name})[group];")
    for name in kernel.writes:
        lines.append(f"  Pack<{C_TYPES[plan.buffers[name].dtype]}, {width}> {name}_pack;")
    body = _element(kernel, plan, render)
    if len(body) > len(kernel.stores):  # positions are computed from the element's number
        body = [f"const int64_t i = group * {width} + lane;", *body]
    lines += ["  #pragma unroll", f"  for (int lane = 0; lane < {width}; ++lane) {{"]
    lines += ["    " + line for line in body] + ["  }"]
    for name in kernel.writes:
        pack = f"Pack<{C_TYPES[plan.buffers[name].dtype]}, {width}>"
        lines.append(f"  reinterpret_cast<{pack}*>({name})[group] = {name}_pack;")
    single = ["    " + line for line in _element(kernel, plan, emitting.renderer(plan))]
    lines += ["} else {", f"  for (int64_t i = group * {width}; i < {total}; ++i) {{", *single, "  }", "}"]
    return lines


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
