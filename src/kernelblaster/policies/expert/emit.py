"""A plan as a candidate's source: kernels, then the launch function of the signature."""

import importlib
import pkgutil
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from types import ModuleType

from kernelblaster.policies.expert import emission
from kernelblaster.policies.expert.device_code import device_code
from kernelblaster.policies.expert.emission.emitted import Emitted, Variant
from kernelblaster.policies.expert.emission.loops import indented
from kernelblaster.policies.expert.emission.render import takes_extremes
from kernelblaster.policies.expert.expression import used_names
from kernelblaster.policies.expert.index import evaluate, text
from kernelblaster.policies.expert.names import inner_name
from kernelblaster.policies.expert.plan import Kernel, Plan
from kernelblaster.policies.expert.schedule import STATIC_SHARED_BYTES
from kernelblaster.tasks.header import C_TYPES, c_arguments

USUAL_CLUSTER = 8  # blocks of a cluster that a launch may have without asking


@cache
def load_emitters() -> Mapping[type, ModuleType]:
    """The emitter of each type of schedule: every file of the folder names those that it writes in
    SCHEDULES."""
    names = [found.name for found in pkgutil.iter_modules(emission.__path__)]
    modules = [importlib.import_module(f"{emission.__name__}.{name}") for name in names]
    return {schedule: module for module in modules for schedule in getattr(module, "SCHEDULES", ())}


def emit(plan: Plan) -> str:
    """The candidate's source."""
    emitters = load_emitters()
    helpers: dict[str, None] = {}
    kernels, launches = [], []
    for kernel in plan.kernels:
        emitted: Emitted = emitters[type(kernel.schedule)].emit(kernel, plan)
        helpers |= dict.fromkeys(emitted.helpers)
        typed, plain = _arguments(kernel, plan)
        if kernel.constant_sizes:
            emitted, typed = _with_constants(emitted, typed, plan.inner_sizes(kernel))
        fit = f", {emitted.blocks_per_sm}" if emitted.blocks_per_sm else ""
        bound = f"__launch_bounds__({emitted.threads}{fit})"
        template = f"template <{', '.join(emitted.parameters)}>\n" if emitted.parameters else ""
        together = f"__cluster_dims__({emitted.cluster}) " if emitted.cluster > 1 else ""
        head = f"{template}__global__ void {together}{bound} {kernel.name}(\n{_wrapped(typed)}) {{"
        kernels.append("\n".join([head, *indented(emitted.body), "}"]))
        launches.append(_unless_empty(kernel, plan, _launch(kernel.name, emitted, plain)))
    extremes = [device_code("nan_extremes")] if any(map(takes_extremes, plan.kernels)) else []
    return "\n\n".join([*extremes, *helpers, *kernels, _launch_function(plan, launches)]) + "\n"


def _with_constants(
    emitted: Emitted, typed: list[str], sizes: Mapping[str, int]
) -> tuple[Emitted, list[str]]:
    """The kernel with one more variant, in which sizes are constants; and its parameters."""
    renamed = {f"int64_t {name}": f"int64_t any_{name}" for name in sizes}
    lines = [f"const int64_t {name} = SIZED ? {value} : any_{name};" for name, value in sizes.items()]

    def flagged(flag: str, variant: Variant) -> Variant:
        return replace(variant, arguments=(flag, *variant.arguments))

    variants = emitted.variants or (Variant((), "", emitted.blocks),)
    equal = [f"{name} == {value}" for name, value in sizes.items()]
    condition = " && ".join(filter(None, (*equal, variants[0].condition)))
    first = replace(flagged("true", variants[0]), condition=condition)
    emitted = replace(
        emitted,
        body=[*lines, *emitted.body],
        parameters=("bool SIZED", *emitted.parameters),
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
        call = launch(f"<{', '.join(variant.arguments)}>", variant.blocks, 8)
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
    asked = {"MaxDynamicSharedMemorySize": emitted.shared if emitted.shared > STATIC_SHARED_BYTES else 0}
    asked["NonPortableClusterSizeAllowed"] = int(emitted.cluster > USUAL_CLUSTER)
    return [f"cudaFuncSetAttribute({name}, cudaFuncAttribute{what}, {n});" for what, n in asked.items() if n]


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
    used = used_names(kernel.expressions, positions)
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
