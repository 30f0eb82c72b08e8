"""Reductions and normalizations: a thread, or the threads of a block together, for each result.

The stages follow one another over the same elements; what is stored for each element is written
in a last pass.
"""

from kernelblaster.policies.expert import emit as emitting
from kernelblaster.policies.expert import index as indices
from kernelblaster.policies.expert.expression import Expression
from kernelblaster.policies.expert.families.loops import nested, running
from kernelblaster.policies.expert.plan import Kernel, Plan, Stage, Store
from kernelblaster.policies.expert.render import Renderer
from kernelblaster.tasks.header import C_TYPES

FAMILIES = ("row_reduction", "column_reduction", "full_reduction")

BLOCK_REDUCE = """\
// Combines one value of each thread of the block, pair by pair; every thread gets the result.
template <typename T, typename Combine>
__device__ T block_reduce(T value, Combine combine) {
  __shared__ T partial[1024];
  partial[threadIdx.x] = value;
  __syncthreads();
  for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) {
      partial[threadIdx.x] = combine(partial[threadIdx.x], partial[threadIdx.x + half]);
    }
    __syncthreads();
  }
  T result = partial[0];
  __syncthreads();  // before the memory is used again
  return result;
}"""
FUNCTORS = {
    "sum": "struct Sum {\n  template <typename T>\n"
    "  __device__ T operator()(T a, T b) const { return a + b; }\n};",
    "product": "struct Product {\n  template <typename T>\n"
    "  __device__ T operator()(T a, T b) const { return a * b; }\n};",
    "max": "struct Largest {\n  template <typename T>\n"
    "  __device__ T operator()(T a, T b) const { return b > a ? b : a; }\n};",
    "min": "struct Smallest {\n  template <typename T>\n"
    "  __device__ T operator()(T a, T b) const { return b < a ? b : a; }\n};",
    "any": "struct Any {\n  __device__ bool operator()(bool a, bool b) const { return a || b; }\n};",
    "all": "struct All {\n  __device__ bool operator()(bool a, bool b) const { return a && b; }\n};",
}
PLACED = """\
// A value and where it was found; place -1 is nothing yet. The first of equal values wins.
template <typename T>
struct Placed {
  T value;
  int64_t place;
};"""
PLACED_FUNCTORS = {
    "argmax": ("FirstLargest", "b.value > a.value"),
    "argmin": ("FirstSmallest", "b.value < a.value"),
}
NAMES = {"sum": "Sum", "product": "Product", "max": "Largest", "min": "Smallest", "any": "Any", "all": "All"}
STARTS = {
    "real": {"sum": "0", "product": "1", "max": "-INFINITY", "min": "INFINITY"},
    "whole": {"sum": "0", "product": "1", "max": "INT64_MIN", "min": "INT64_MAX"},
    "truth": {"any": "false", "all": "true", "max": "false", "min": "true"},
}


def emit(kernel: Kernel, plan: Plan) -> emitting.Emitted:
    return _by_block(kernel, plan) if kernel.schedule.workers == "block" else _by_thread(kernel, plan)


def _by_thread(kernel: Kernel, plan: Plan) -> emitting.Emitted:
    total = emitting.count([axis.extent for axis in kernel.axes])
    render = emitting.renderer(plan)
    first, declared = running("i", kernel.axes)
    lines = [
        f"const int64_t {first} = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;",
        f"if ({first} >= {total}) return;",
        *declared,
    ]
    for stage in kernel.stages:
        kind, start, step = _parts(stage, kernel, render)
        lines.append(f"{kind} {_running(stage)} = {start};")
        lines += nested(kernel.reduced, step)
        lines += _finished(stage, render)
    lines += nested(kernel.reduced, _stores(kernel, plan, render, each=True)) if _has_each(kernel) else []
    lines += _stores(kernel, plan, render, each=False)
    threads = kernel.schedule.threads
    helpers = _helpers(kernel, block=False)
    return emitting.Emitted(lines, f"({total} + {threads - 1}) / {threads}", threads, helpers)


def _by_block(kernel: Kernel, plan: Plan) -> emitting.Emitted:
    render = emitting.renderer(plan)
    first, lines = running("i", kernel.axes)
    if kernel.axes:
        lines.insert(0, f"const int64_t {first} = blockIdx.x;")
    count = emitting.count([axis.extent for axis in kernel.reduced])
    j, declared = running("j", kernel.reduced)
    head = f"for (int64_t {j} = threadIdx.x; {j} < {count}; {j} += blockDim.x) {{"
    place = ["  " + line for line in declared]
    for stage in kernel.stages:
        kind, start, step = _parts(stage, kernel, render)
        lines.append(f"{kind} {_running(stage)} = {start};")
        lines += [head, *place, *("  " + line for line in step), "}"]
        functor = NAMES.get(stage.combine) or PLACED_FUNCTORS[stage.combine][0]
        lines.append(f"{_running(stage)} = block_reduce({_running(stage)}, {functor}());")
        lines += _finished(stage, render)
    if _has_each(kernel):
        body = _stores(kernel, plan, render, each=True)
        lines += [head, *place, *("  " + line for line in body), "}"]
    once = _stores(kernel, plan, render, each=False)
    if once:
        lines += ["if (threadIdx.x == 0) {", *("  " + line for line in once), "}"]
    blocks = emitting.count([axis.extent for axis in kernel.axes])
    return emitting.Emitted(lines, blocks, kernel.schedule.threads, _helpers(kernel, block=True))


def _running(stage: Stage) -> str:
    return f"{stage.name}_so_far"


def _parts(stage: Stage, kernel: Kernel, render: Renderer) -> tuple[str, str, list[str]]:
    """Type and start of a running result, and the statements that take in one element."""
    name, kind = _running(stage), stage.body.kind
    value = render.expression(stage.body)
    if stage.combine in PLACED_FUNCTORS:
        functor = PLACED_FUNCTORS[stage.combine][0]
        place = indices.text(
            indices.row_major((a.index for a in kernel.reduced), (a.extent for a in kernel.reduced))
        )
        element = f"Placed<{_type(stage.body, render)}>"
        step = [f"{name} = {functor}()({name}, {element}{{{value}, {place}}});"]
        return element, "{0, -1}", step
    running = _type(stage.body, render)
    if kind == "real" and stage.combine == "sum" and kernel.schedule.accumulate == "double":
        running = "double"
    start = STARTS[kind][stage.combine]
    if stage.combine == "sum":
        return running, start, [f"{name} += {value};"]
    if stage.combine == "product":
        return running, start, [f"{name} *= {value};"]
    return running, start, [f"{name} = {NAMES[stage.combine]}()({name}, ({running})({value}));"]


def _finished(stage: Stage, render: Renderer) -> list[str]:
    """The result under its own name and in the kernel's own type."""
    if stage.combine in PLACED_FUNCTORS:
        return [f"const int64_t {stage.name} = {_running(stage)}.place;"]
    kind = _type(stage.body, render)
    return [f"const {kind} {stage.name} = {_running(stage)};"]


def _type(expression: Expression, render: Renderer) -> str:
    return {"real": render.real, "whole": "int64_t", "truth": "bool"}[expression.kind]


def _has_each(kernel: Kernel) -> bool:
    return any(store.each for store in kernel.stores)


def _stores(kernel: Kernel, plan: Plan, render: Renderer, *, each: bool) -> list[str]:
    return [_store(store, plan, render) for store in kernel.stores if store.each == each]


def _store(store: Store, plan: Plan, render: Renderer) -> str:
    kind = C_TYPES[plan.buffers[store.buffer].dtype]
    value = render.expression(store.value)
    converted = f"({kind})({value})" if kind.startswith("__") else value
    return f"{render.place(store.buffer, store.position)} = {converted};"


def _helpers(kernel: Kernel, *, block: bool) -> tuple[str, ...]:
    found = [BLOCK_REDUCE] if block else []
    for stage in kernel.stages:
        if stage.combine in PLACED_FUNCTORS:
            name, better = PLACED_FUNCTORS[stage.combine]
            found += [PLACED, _placed_functor(name, better)]
        elif block or stage.combine not in ("sum", "product"):
            found.append(FUNCTORS[stage.combine])
    return tuple(found)


def _placed_functor(name: str, better: str) -> str:
    return (
        f"struct {name} {{\n  template <typename T>\n"
        "  __device__ Placed<T> operator()(Placed<T> a, Placed<T> b) const {\n"
        "    if (a.place < 0 || b.place < 0) return a.place < 0 ? b : a;\n"
        f"    if ({better}) return b;\n"
        "    return a.value == b.value && b.place < a.place ? b : a;\n  }\n};"
    )
