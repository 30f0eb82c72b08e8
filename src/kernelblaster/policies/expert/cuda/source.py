"""Writes `__global__` kernels, and the host function that launches them, as CUDA text from their syntax
trees.

The parameters of a kernel are those of the host function (tensors, sizes, arguments) that its body uses, in
the same order. If the body declares a variable with the name of a parameter, the parameter is renamed.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from kernelblaster.policies.expert.cuda.headers import Header
from kernelblaster.policies.expert.cuda.printer import Printer, wrapped
from kernelblaster.policies.expert.cuda.statements import Body, Declaration, Declarator
from kernelblaster.policies.expert.cuda.terms import INT64, Choice, CudaType, LiteralTerm, Local, Term

CONSTANT = Local("SIZED")


@dataclass(frozen=True, slots=True)
class TemplateParameter:
    type: CudaType
    name: str


@dataclass(frozen=True)
class Variant:
    """One instance of a kernel template that the host may launch: the template `arguments`, the `condition`
    on the sizes under which it is launched (None: always), and the number of `blocks` of its grid. All are
    C++ expressions; the host evaluates the last two."""

    arguments: tuple[Term, ...]
    condition: Term | None
    blocks: Term


@dataclass(frozen=True)
class Emitted:
    """A kernel as an emitter returns it: the statements of its `body`, and its launch. `blocks` is the grid
    size (a C++ expression of the host), `threads` the block size, `shared` the dynamic shared memory in
    bytes, and `cluster` the cluster size in blocks. The compiler limits registers so that `blocks_per_sm`
    blocks fit on an SM (0: no such limit). With `cooperative`, its blocks wait for each other, and all of
    them must be resident. The comment `remark` is written above the kernel. With
    `parameters` it is a template, and the host launches the first of its `variants` whose condition holds."""

    body: Body
    blocks: Term
    threads: int
    shared: int = 0
    blocks_per_sm: int = 0
    cluster: int = 1
    cooperative: bool = False
    remark: str = ""
    parameters: tuple[TemplateParameter, ...] = ()
    variants: tuple[Variant, ...] = ()


@dataclass(frozen=True)
class FunctionText:
    """A function written as CUDA text, with what is needed to put it into a source file: the names of its
    parameters in order (`given`), and the headers of device code that it `needs`."""

    text: str
    given: tuple[str, ...]
    needs: tuple[Header, ...]


def kernel_text(
    name: str, emitted: Emitted, types: Mapping[str, str], constants: Mapping[str, int]
) -> FunctionText:
    """Returns the text of the `__global__` function `name`, with the body, launch bounds and cluster size of
    `emitted`. `types` has the names and C++ types of all parameters that it may have; those that the body
    uses become its parameters. `constants` maps names of sizes to their values; if it is not empty, the
    kernel is a template with a bool, and these sizes are compile-time constants where the bool is true."""
    templates = [parameter.name for parameter in emitted.parameters]
    renamed, printer, lines = printed(emitted.body, types, (CONSTANT.name, *templates))
    given = [found for found in types if found in printer.given]
    sized = [found for found in given if found in constants]
    own = {found: renamed.get(found, found) for found in given}
    passed = own | {found: _free(f"any_{own[found]}", printer.declared | {*own.values()}) for found in sized}
    first = [_constant(own[found], constants[found], passed[found]) for found in sized]
    template = [f"{parameter.type} {parameter.name}" for parameter in emitted.parameters]
    if constants:
        template.insert(0, f"bool {CONSTANT.name}")
    head = f"template <{', '.join(template)}>\n" if template else ""
    fit = f", {emitted.blocks_per_sm}" if emitted.blocks_per_sm else ""
    together = f"__cluster_dims__({emitted.cluster}) " if emitted.cluster > 1 else ""
    bounds = f"{together}__launch_bounds__({emitted.threads}{fit})"
    parameters = wrapped([f"{types[found]} {passed[found]}" for found in given], 4)
    remark = f"// {emitted.remark}\n" if emitted.remark else ""
    head = f"{remark}{head}__global__ void {bounds} {name}(\n{parameters}) {{"
    return FunctionText("\n".join([head, *first, *lines, "}"]), tuple(given), tuple(printer.needs))


def _constant(name: str, value: int, otherwise: str) -> str:
    chosen = Choice(CONSTANT, LiteralTerm(str(value)), Local(otherwise))
    found = Declaration(INT64, (Declarator(name, chosen),), "const")
    return Printer({}).body((found,))[0]


def host_function_text(head: str, body: Body, types: Mapping[str, str], last: str) -> FunctionText:
    """Returns the text of a host function. `head` is its return type and name; its parameters are all of
    `types` (name to C++ type), followed by `last`, such as "cudaStream_t stream"; its statements are
    `body`."""
    renamed, printer, lines = printed(body, types, (last.rpartition(" ")[2],))
    parameters = [f"    {kind} {renamed.get(name, name)}" for name, kind in types.items()]
    text = "\n".join([f"{head}(", ",\n".join([*parameters, f"    {last}"]) + ") {", *lines, "}"])
    return FunctionText(text, tuple(types), tuple(printer.needs))


def printed(
    body: Body, given: Iterable[str], declared: Iterable[str]
) -> tuple[dict[str, str], Printer, list[str]]:
    """Prints the statements `body` of a function; returns (renamed parameters, the printer used, the lines of
    text). `given` are the names of the function's parameters. A parameter x is renamed to x_given if the body
    declares a variable `x`, or if `x` is in `declared`, further names that the caller uses for something
    else. The first result maps each such old name to the new one."""
    printer = Printer({})
    lines = printer.body(body)
    taken = printer.declared | set(declared)
    renamed: dict[str, str] = {}
    for name in given:
        if name in taken:
            renamed[name] = _free(f"{name}_given", {*taken, *given, *renamed.values()})
    if renamed:
        printer = Printer(renamed)
        lines = printer.body(body)
    return renamed, printer, lines


def _free(name: str, taken: Collection[str]) -> str:
    while name in taken:
        name += "_"
    return name
