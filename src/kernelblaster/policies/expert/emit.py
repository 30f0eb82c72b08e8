"""Writes a plan (the kernels of a candidate, and the buffers that they use) as one CUDA source: the device
code that is needed, the kernels, and the C launch function that the task's signature prescribes."""

import importlib
import operator
import pkgutil
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from types import ModuleType

from kernelblaster.policies.expert import emission
from kernelblaster.policies.expert.axis import Axis
from kernelblaster.policies.expert.cuda.headers import in_order
from kernelblaster.policies.expert.cuda.source import (
    Emitted,
    FunctionText,
    Variant,
    host_function_text,
    kernel_text,
)
from kernelblaster.policies.expert.cuda.statements import (
    CooperativeLaunch,
    Do,
    If,
    Launch,
    Statement,
    declare,
    loop,
    when,
)
from kernelblaster.policies.expert.cuda.terms import (
    FALSE,
    INT64,
    TRUE,
    CudaType,
    DeviceFunction,
    Given,
    LiteralTerm,
    Local,
    Term,
    TypeTerm,
    address_of,
    all_of,
    call,
    cast,
)
from kernelblaster.policies.expert.emission.values import c_type, index_term
from kernelblaster.policies.expert.index import evaluate
from kernelblaster.policies.expert.kernel import Kernel
from kernelblaster.policies.expert.plan import Plan
from kernelblaster.policies.expert.schedules.schedule import STATIC_SHARED_BYTES
from kernelblaster.tasks.header import c_arguments

USUAL_CLUSTER = 8  # blocks of a cluster that a launch may have without asking
STREAM = Local("stream")


@cache
def load_emitters() -> Mapping[type, ModuleType]:
    """Returns the emitters by schedule: a mapping from each type of schedule (layout on the GPU) to the
    module of emission/ that writes kernels with that schedule as CUDA. Each module lists its types in
    SCHEDULES."""
    names = [found.name for found in pkgutil.iter_modules(emission.__path__)]
    modules = [importlib.import_module(f"{emission.__name__}.{name}") for name in names]
    return {schedule: module for module in modules for schedule in getattr(module, "SCHEDULES", ())}


@dataclass(frozen=True)
class KernelCode:
    """One kernel as written: its CUDA `text`, and the host statements that launch it."""

    text: FunctionText
    launch: tuple[Statement, ...]


def emit(plan: Plan) -> str:
    """Returns the CUDA source of a candidate with the kernels of `plan`: device code that is needed, the
    kernels, and the launch function, which also allocates scratch memory."""
    kernels = [_WRITTEN.code(kernel, plan) for kernel in plan.kernels]
    host = _launch_function(plan, [kernel.launch for kernel in kernels])
    needed = in_order(code for kernel in kernels for code in kernel.text.needs)
    needed += [code for code in in_order(host.needs) if code not in needed]
    texts = [code.text for code in needed] + [kernel.text.text for kernel in kernels] + [host.text]
    return "\n\n".join(texts) + "\n"


class _WrittenKernels:
    """Cache of the code of at most `most` kernels: techniques change few kernels of a plan, and the others
    need not be written again. An entry counts only while the kernel, the plan's sizes and signature, and the
    kernel's buffers are the very same objects."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: OrderedDict[int, tuple[tuple[object, ...], KernelCode]] = OrderedDict()

    def code(self, kernel: Kernel, plan: Plan) -> KernelCode:
        buffers = [plan.buffers[name] for name in (*kernel.writes, *kernel.reads)]
        made_of = (kernel, plan.sizes, plan.signature, *buffers)
        known = self._known.get(id(kernel))
        if known is None or not _same_objects(known[0], made_of):
            known = self._known[id(kernel)] = made_of, _kernel_code(kernel, plan)
            if len(self._known) > self._most:
                self._known.popitem(last=False)
        return known[1]


def _same_objects(left: tuple[object, ...], right: tuple[object, ...]) -> bool:
    return len(left) == len(right) and all(map(operator.is_, left, right))


_WRITTEN = _WrittenKernels(1024)


def _kernel_code(kernel: Kernel, plan: Plan) -> KernelCode:
    launched_steps = None if kernel.schedule.loops_over_steps else kernel.steps
    given = plan if launched_steps is None else _with_step(plan, launched_steps)
    emitted: Emitted = load_emitters()[type(kernel.schedule)].emit(kernel, given)
    constants = plan.inner_sizes(kernel) if kernel.constant_sizes else {}
    text = kernel_text(kernel.name, emitted, _argument_types(kernel, plan), constants)
    used = {name: value for name, value in constants.items() if name in text.given}
    variants = _with_constants(emitted, used) if constants else emitted.variants
    arguments = tuple(Given(name) for name in text.given)
    launch = _launch(kernel.name, replace(emitted, variants=variants), arguments)
    if launched_steps is not None:
        end = index_term(launched_steps.extent, plan.sizes[0])
        launch = (loop(launched_steps.name, 0, end, launch, type_=INT64),)
    return KernelCode(text, _unless_empty(kernel, plan, launch))


def _with_step(plan: Plan, steps: Axis) -> Plan:
    """The plan with one size more: the variable of the loop `steps` over launches. A kernel that is launched
    once per step gets it as an argument, as it gets sizes."""
    return replace(plan, sizes=tuple({**sizes, steps.name: 0} for sizes in plan.sizes))


def _argument_types(kernel: Kernel, plan: Plan) -> dict[str, str]:
    """C++ types of everything that may be passed to the kernel, by name, in the order of its parameters: the
    tensors and scratch buffers that it writes and reads, and all sizes and numbers of the task."""
    types = {name: f"{c_type(plan.buffers[name].dtype)}* __restrict__" for name in kernel.writes}
    for name in kernel.reads:
        types.setdefault(name, f"const {c_type(plan.buffers[name].dtype)}* __restrict__")
    types |= {name: kind for kind, name in c_arguments(plan.signature) if name not in plan.buffers}
    return types if kernel.steps is None else types | {kernel.steps.name: "int64_t"}


def _with_constants(emitted: Emitted, sizes: Mapping[str, int]) -> tuple[Variant, ...]:
    """The variants of `emitted` (the instances of its template that the host may launch) with one more in
    front, in which `sizes` (name to value) are compile-time constants, launched only if the actual sizes
    equal them."""
    variants = emitted.variants or (Variant((), None, emitted.blocks),)

    def flagged(flag: Term, variant: Variant) -> Variant:
        return replace(variant, arguments=(flag, *variant.arguments))

    equal: list[Term] = [Given(name).equals(value) for name, value in sizes.items()]
    first = flagged(TRUE, variants[0])
    condition = all_of([*equal, first.condition] if first.condition is not None else equal)
    return (replace(first, condition=condition), *(flagged(FALSE, variant) for variant in variants))


def _launch(name: str, emitted: Emitted, arguments: tuple[Term, ...]) -> tuple[Statement, ...]:
    """Host statements that launch the kernel `name` with `arguments` and the grid and block size of
    `emitted`; if that has variants (instances of a template), an if-else chain that launches the first one
    whose condition holds."""

    def launch(kernel: Term, blocks: Term) -> tuple[Statement, ...]:
        kind = CooperativeLaunch if emitted.cooperative else Launch
        shape = kind(kernel, blocks, emitted.threads, emitted.shared, arguments)
        return (*_permissions(kernel, emitted), shape)

    if not emitted.variants:
        return launch(Local(name), emitted.blocks)
    found: tuple[Statement, ...] = ()
    for variant in reversed(emitted.variants):
        here = launch(DeviceFunction(name, None, variant.arguments), variant.blocks)
        found = here if not found or variant.condition is None else (If(variant.condition, here, found),)
    return found


def _unless_empty(kernel: Kernel, plan: Plan, launch: tuple[Statement, ...]) -> tuple[Statement, ...]:
    """The host statements `launch`, inside an `if` where the grid could be empty at the smallest sizes (as
    for `x[:, 1:]` with one column), since CUDA refuses empty grids; unchanged otherwise."""
    sizes = {s.name: plan.sizes[0][s.name] if s.kind == "fixed" else 1 for s in plan.signature.sizes}
    extents = dict.fromkeys(axis.extent for axis in kernel.axes if evaluate(axis.extent, sizes) < 1)
    some = all_of([index_term(extent, plan.sizes[0]) > 0 for extent in extents])
    return launch if some is None else (when(some, *launch),)


def _permissions(kernel: Term, emitted: Emitted) -> list[Statement]:
    """Calls of cudaFuncSetAttribute that are needed before `kernel` is launched: for more dynamic shared
    memory than STATIC_SHARED_BYTES, and for clusters of more than 8 blocks, as `emitted` says; empty when it
    needs neither."""
    asked = {"MaxDynamicSharedMemorySize": emitted.shared if emitted.shared > STATIC_SHARED_BYTES else 0}
    asked["NonPortableClusterSizeAllowed"] = int(emitted.cluster > USUAL_CLUSTER)
    return [
        Do(call("cudaFuncSetAttribute", kernel, Local(f"cudaFuncAttribute{what}"), value))
        for what, value in asked.items()
        if value
    ]


def _launch_function(plan: Plan, launches: list[tuple[Statement, ...]]) -> FunctionText:
    body: list[Statement] = []
    scratch = [buffer for buffer in plan.buffers.values() if buffer.scratch]
    for buffer in scratch:
        kind = c_type(buffer.dtype)
        size: Term = call("sizeof", TypeTerm(kind))
        size = index_term(buffer.elements, plan.sizes[0]) * size if buffer.shape else size
        body.append(declare(CudaType(f"{kind}*"), buffer.name, LiteralTerm("nullptr")))
        pointer = cast("void**", address_of(Given(buffer.name)))
        body.append(Do(call("cudaMallocAsync", pointer, size, STREAM)))
    body += [statement for launch in launches for statement in launch]
    body += [Do(call("cudaFreeAsync", Given(buffer.name), STREAM)) for buffer in scratch]
    head = 'extern "C" void launch_gpu_implementation'
    types = {name: kind for kind, name in c_arguments(plan.signature)}
    return host_function_text(head, tuple(body), types, "cudaStream_t stream")
