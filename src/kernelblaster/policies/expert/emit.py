"""A plan as a candidate's source: kernels, then the launch function of the signature."""

import importlib
import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import ModuleType

from kernelblaster.policies.expert import families
from kernelblaster.policies.expert.device_code import device_code
from kernelblaster.policies.expert.families.loops import indented
from kernelblaster.policies.expert.index import Index, evaluate, product, text
from kernelblaster.policies.expert.names import inner_name
from kernelblaster.policies.expert.plan import Kernel, Plan
from kernelblaster.policies.expert.render import Renderer, used_names
from kernelblaster.tasks.header import C_TYPES, c_arguments

FAMILIES: dict[str, ModuleType] = {}
STATIC_SHARED = 48 << 10  # bytes of shared memory that a launch may have without asking
USUAL_CLUSTER = 8  # and blocks of a cluster


@dataclass(frozen=True)
class Variant:
    """A kernel template's arguments, the sizes at which it is launched with them, and its blocks then."""

    arguments: str
    condition: str
    blocks: str


@dataclass(frozen=True)
class Emitted:
    """A kernel's body, and the host expressions that launch it. `shared` are the bytes of shared memory
    that the launch gives it; `per_processor` how many of its blocks must fit on a processor, if that
    matters; `cluster` how many of them run together. A kernel with a `template` head is launched as the
    first of its `variants` that applies."""

    body: list[str]
    blocks: str
    threads: int
    helpers: tuple[str, ...] = ()
    shared: int = 0
    per_processor: int = 0
    cluster: int = 1
    template: str = ""
    variants: tuple[Variant, ...] = ()


def load_families() -> dict[str, ModuleType]:
    """Every file of the folder serves the families that it lists in FAMILIES."""
    if not FAMILIES:
        for found in pkgutil.iter_modules(families.__path__):
            module = importlib.import_module(f"{families.__name__}.{found.name}")
            FAMILIES.update(dict.fromkeys(getattr(module, "FAMILIES", ()), module))
    return FAMILIES


def emit(plan: Plan) -> str:
    """The candidate's source."""
    known = load_families()
    helpers: dict[str, None] = {}
    kernels, launches = [], []
    for kernel in plan.kernels:
        emitted = known[kernel.family].emit(kernel, plan)
        helpers |= dict.fromkeys(emitted.helpers)
        typed, plain = _arguments(kernel, plan)
        if kernel.schedule.sized:
            emitted, typed = _sized(emitted, typed, known_sizes(kernel, plan))
        fit = f", {emitted.per_processor}" if emitted.per_processor else ""
        bound = f"__launch_bounds__({emitted.threads}{fit})"
        template = f"{emitted.template}\n" if emitted.template else ""
        together = f"__cluster_dims__({emitted.cluster}) " if emitted.cluster > 1 else ""
        head = f"{template}__global__ void {together}{bound} {kernel.name}(\n{_wrapped(typed)}) {{"
        kernels.append("\n".join([head, *indented(emitted.body), "}"]))
        launches.append(_unless_empty(kernel, plan, _launch(kernel.name, emitted, plain)))
    written = [*helpers, *kernels]
    if any("nan_max(" in text or "nan_min(" in text for text in written):
        written.insert(0, device_code("nan_extremes"))
    return "\n\n".join([*written, _launch_function(plan, launches)]) + "\n"


def known_sizes(kernel: Kernel, plan: Plan) -> dict[str, int]:
    """The primary workload's sizes that addresses and loops of the kernel depend on: not how many rows or
    images there are."""
    shapes = [plan.buffers[name].shape for name in (*kernel.reads, *kernel.writes)]
    inner = [index for shape in shapes for index in shape[1:]]
    inner += [axis.extent for axis in (*kernel.axes[1:], *kernel.reduced)]
    used = used_names([], inner)
    return {name: value for name, value in plan.sizes[0].items() if name in used}


def _sized(emitted: Emitted, typed: list[str], sizes: Mapping[str, int]) -> tuple[Emitted, list[str]]:
    """The kernel with one more variant, in which sizes are constants; and its parameters."""
    renamed = {f"int64_t {name}": f"int64_t any_{name}" for name in sizes}
    lines = [f"const int64_t {name} = SIZED ? {value} : any_{name};" for name, value in sizes.items()]
    others = emitted.template.removeprefix("template <").removesuffix(">")

    def flagged(flag: str, variant: Variant) -> Variant:
        return replace(variant, arguments=", ".join(filter(None, (flag, variant.arguments))))

    variants = emitted.variants or (Variant("", "", emitted.blocks),)
    equal = [f"{name} == {value}" for name, value in sizes.items()]
    condition = " && ".join(filter(None, (*equal, variants[0].condition)))
    first = replace(flagged("true", variants[0]), condition=condition)
    emitted = replace(
        emitted,
        body=[*lines, *emitted.body],
        template=f"template <{', '.join(filter(None, ('bool SIZED', others)))}>",
        variants=(first, *(flagged("false", variant) for variant in variants)),
    )
    return emitted, [renamed.get(part, part) for part in typed]


def _launch(name: str, emitted: Emitted, arguments: list[str]) -> str:
    """The launch, or one for each variant, of which the first that applies is taken."""

    def launch(template: str, blocks: str, indent: int) -> str:
        shape = f"(unsigned)({blocks}), {emitted.threads}, {emitted.shared}, stream"
        call = f"{name}{template}<<<{shape}>>>(\n{_wrapped(arguments, indent)});"
        return f"\n{' ' * (indent - 4)}".join([*_permissions(f"{name}{template}", emitted), call])

    if not emitted.variants:
        return launch("", emitted.blocks, 6)
    last = len(emitted.variants) - 1
    lines = ""
    for place, variant in enumerate(emitted.variants):
        head = f"if ({variant.condition}) " if place < last else ""
        head = f" else {head}" if place else head
        call = launch(f"<{variant.arguments}>", variant.blocks, 8)
        lines += f"{head}{{\n    {call}\n  }}" if last else call
    return lines


def _unless_empty(kernel: Kernel, plan: Plan, launch: str) -> str:
    """The launch under a condition, where there is nothing to do at the least sizes (of `x[:, 1:]` at one
    column): a grid may not be empty."""
    sizes = {s.name: plan.sizes[0][s.name] if s.kind == "fixed" else 1 for s in plan.signature.sizes}
    extents = dict.fromkeys(text(a.extent) for a in kernel.axes if evaluate(a.extent, sizes) < 1)
    if not extents:
        return launch
    lines = launch.replace("\n", "\n  ")
    return f"if ({' && '.join(f'{extent} > 0' for extent in extents)}) {{\n    {lines}\n  }}"


def _permissions(name: str, emitted: Emitted) -> list[str]:
    """What a kernel must be allowed before it is launched."""
    asked = {"MaxDynamicSharedMemorySize": emitted.shared if emitted.shared > STATIC_SHARED else 0}
    asked["NonPortableClusterSizeAllowed"] = int(emitted.cluster > USUAL_CLUSTER)
    return [f"cudaFuncSetAttribute({name}, cudaFuncAttribute{what}, {n});" for what, n in asked.items() if n]


def real_type(plan: Plan) -> str:
    """The type of arithmetic: half precisions are computed in float."""
    return "double" if plan.signature.outputs[0].dtype == "float64" else "float"


def renderer(plan: Plan) -> Renderer:
    return Renderer(plan.buffers, real_type(plan))


def _arguments(kernel: Kernel, plan: Plan) -> tuple[list[str], list[str]]:
    """A kernel's parameters, and the same as passed by the launch function."""
    typed, plain = [], []
    for name in dict.fromkeys(kernel.writes):
        typed.append(f"{C_TYPES[plan.buffers[name].dtype]}* __restrict__ {name}")
        plain.append(name)
    for name in kernel.reads:
        typed.append(f"const {C_TYPES[plan.buffers[name].dtype]}* __restrict__ {name}")
        plain.append(name)
    positions = [axis.extent for axis in (*kernel.axes, *kernel.reduced)]
    for name in (*kernel.reads, *kernel.writes):
        positions += plan.buffers[name].shape
    positions += [index for store in kernel.stores for index in store.position]
    used = used_names(list(kernel.expressions), positions)
    for kind, given in c_arguments(plan.signature):
        name = inner_name(given)
        if name in used and name not in plain:
            typed.append(f"{kind} {name}")
            plain.append(name)
    return typed, plain


def _launch_function(plan: Plan, launches: list[str]) -> str:
    arguments = ",\n    ".join(f"{kind} {name}" for kind, name in c_arguments(plan.signature))
    lines = [f'extern "C" void launch_gpu_implementation(\n    {arguments},\n    cudaStream_t stream) {{']
    for kind, name in c_arguments(plan.signature):
        if inner_name(name) != name:
            lines.append(f"  {kind} {inner_name(name)} = {name};")
    scratch = [buffer for buffer in plan.buffers.values() if buffer.scratch]
    for buffer in scratch:
        kind = C_TYPES[buffer.dtype]
        size = f"{text(buffer.elements)} * " if buffer.shape else ""
        lines.append(f"  {kind}* {buffer.name} = nullptr;")
        lines.append(f"  cudaMallocAsync((void**)&{buffer.name}, {size}sizeof({kind}), stream);")
    lines += ["  " + launch for launch in launches]
    lines += [f"  cudaFreeAsync({buffer.name}, stream);" for buffer in scratch]
    return "\n".join([*lines, "}"])


def _wrapped(parts: list[str], indent: int = 4) -> str:
    """Arguments in lines of readable length."""
    lines, line = [], ""
    for part in parts:
        if line and len(line) + len(part) > 96 - indent:
            lines.append(f"{line},")
            line = part
        else:
            line = f"{line}, {part}" if line else part
    return "\n".join(" " * indent + found for found in [*lines, line])


def count(extents: list[Index]) -> str:
    return text(product(extents))
