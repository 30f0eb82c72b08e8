"""Makes a task of a user's `.cu` file. Sizes, inputs and outputs that its comments do not declare are
inferred from the code. KernelBlaster calls a launch function with a fixed name; if the file lacks it, one is
added that calls the user's own. Where something cannot be inferred, an error shows a template of the lines to
add."""

import re
from collections.abc import Sequence
from dataclasses import replace

from kernelblaster.errors import BadTask
from kernelblaster.records import Candidate, Signature, Task
from kernelblaster.tasks.cuda_extents import UNKNOWN, Extents, extents
from kernelblaster.tasks.cuda_file import CudaFile, is_declared
from kernelblaster.tasks.cuda_source import CudaSource, Edit, Function, Parameter, inserted, text, walk
from kernelblaster.tasks.header import C_TYPES, c_arguments

ENTRY = "launch_gpu_implementation"
OWN = "own_launch"  # what a launch function of the judge's name and another signature is called
BEFORE = "_before"  # the input from which something that is changed in place is filled
INFERRED = "// kernelblaster-task, inferred"
ADDED = "// How the kernel is called by KernelBlaster."
STREAM = "cudaStream_t"
WHOLE = {"int", "unsigned", "unsigned int", "long", "long long", "size_t", "int64_t", "int32_t", "uint32_t"}
REAL = {"float", "double", "__half", "half", "__nv_bfloat16"}
DTYPES = {c: dtype for dtype, c in C_TYPES.items()} | {
    "int": "int32",
    "unsigned": "int32",
    "unsigned int": "int32",
    "uint32_t": "int32",
    "long long": "int64",
    "long": "int64",
    "unsigned char": "uint8",
    "char": "int8",
    "half": "float16",
}
VECTORS = {  # vector types of CUDA: type and number of their components
    f"{kind}{width}": (dtype, width)
    for kind, dtype in {"float": "float32", "double": "float64", "int": "int32"}.items()
    for width in (2, 4)
} | {"half2": ("float16", 2), "__half2": ("float16", 2), "__nv_bfloat162": ("bfloat16", 2)}
USUAL = {"eps": "1e-5", "epsilon": "1e-5"}  # values that are assumed, by the names of arguments
CAST = {*VECTORS, "unsigned", "unsigned int", "uint32_t", "long long", "long", "char"}  # not the judge's own
WINDOW = re.compile(r"(k|ksize|kernel_size|r|radius|taps|filter\w*|\w*width_f|window)$", re.IGNORECASE)
PRODUCT = {"m", "n", "k"}
PRIMARY = {1: (1 << 22, 1000), 2: (2048, 33), 3: (256, 13)}  # by the most dimensions: primary, small
MORE_DIMENSIONS = (64, 7)
OF_PRODUCTS = (512, 21)  # where there are more sizes than any tensor has dimensions
ONE_WINDOW = (7, 7)
BINS = (256, 256)


def prepared(source: str, path: str) -> str:
    """Makes a task's source of the user's `.cu` file `source`: adds declarations and the launch function that
    KernelBlaster calls, where they are missing. `path` names the file in messages. Raises BadTask, with a
    template of the lines to add, if a declaration is missing and cannot be inferred."""
    tree = CudaSource(source)
    declared = is_declared(source)
    if declared:
        CudaFile(source, path)  # or BadTask, with the line of the declaration
        if not tree.kernels and tree.function(ENTRY) is None:
            return source  # made of macros or of other functions: the compiler has the last word
    entry = _instantiated(tree, launch_function(tree, path))
    lines = [] if declared else _inferred(tree, entry, path)
    head = "\n".join([INFERRED, *lines]) + "\n" if lines else ""
    file = CudaFile(head + source, path)
    if _conforms(entry, file.signature):
        return head + source
    return head + _adapted(tree, entry, file, path)


def fitted(candidate: Candidate, task: Task) -> Candidate:
    """Makes a candidate callable for a CUDA-source task. KernelBlaster calls one function, whose parameters
    follow from the task. A candidate that was made from the user's file may define only a launch function
    like the user's own, with other parameters. Returns the candidate with the missing function appended; it
    calls the candidate's own launch function. Returns the candidate unchanged if nothing is missing, if the
    task is not of kind `cuda`, or if not exactly one function of it launches kernels."""
    tree = CudaSource(candidate.source)
    callers = {launch.caller.name for launch in tree.launches}
    if task.kind != "cuda" or len(callers) != 1:
        return candidate
    file = CudaFile(task.source, task.path)
    entry = launch_function(tree, candidate.origin)
    if _conforms(entry, file.signature):
        return candidate
    return candidate.model_copy(update={"source": _adapted(tree, entry, file, candidate.origin)})


def inferred_lines(source: str) -> list[str]:
    """Returns the comment lines of a task's `source` that do not come from the user: `prepared` adds them to
    declare sizes, inputs, outputs and scalar values. Empty if the user declared these."""
    lines = source.splitlines()
    if not lines or lines[0] != INFERRED:
        return []
    return [line for line in lines[1:] if re.match(r"// (size|output|input|value): ", line)]


def in_own_lines(words: str, source: str) -> str:
    """Returns the message `words` with the line number that the user knows. A task's `source` is the user's
    file with lines added at the top. If `words` begins with "line N", a line of `source`, N is replaced by
    the number of that line in the user's file. Other messages are returned as they are."""
    lines = inferred_lines(source)
    added = len(lines) + 1 if lines else 0
    return re.sub(r"^line (\d+)", lambda found: f"line {int(found[1]) - added}", words)


def launch_function(tree: CudaSource, path: str) -> Function:
    """Returns the host function of the CUDA source `tree` that launches the kernels: the one called
    `launch_gpu_implementation`, else the only function that launches kernels and takes pointers. Raises
    BadTask, which names `path`, if there is none or more than one, if it takes PyTorch tensors, if it
    allocates device memory or copies between host and device, or if the source has a main()."""
    if tree.function("main") is not None:
        raise BadTask(f"{path}: has a main(); keep the kernels and the function that launches them alone.")
    declared = tree.function(ENTRY)
    if declared is not None:
        return declared
    tensors = next((launch for launch in tree.launches if "Tensor" in _kinds(launch.caller)), None)
    if tensors is not None:
        kernel = tree.function(tensors.kernel)
        raise BadTask(
            f"{path}: {tensors.caller.name} takes tensors of PyTorch; keep the kernels in a file that does "
            "not include its headers, with a function that takes device pointers"
            + (f", for example:\n\n{_launcher(kernel)}" if kernel is not None else ".")
        )
    callers = {launch.caller.name: launch.caller for launch in tree.launches if launch.caller.pointers}
    if len(callers) == 1:
        return _on_device(tree, next(iter(callers.values())), path)
    if callers:
        names = " and ".join(callers)
        raise BadTask(f"{path}: {names} both launch kernels; call the one to be optimized {ENTRY}.")
    if not tree.kernels:
        raise BadTask(f"{path}: has no kernel (`__global__`), so there is nothing to optimize.")
    raise BadTask(
        f"{path}: no function launches the kernel {tree.kernels[0].name}; add one, for example:\n\n"
        f"{_launcher(tree.kernels[0])}"
    )


def _kinds(function: Function) -> str:
    """The types of a function's parameters, in order, joined to one text by spaces; equal for functions that
    can be called alike."""
    return " ".join(parameter.kind for parameter in function.parameters)


def _instantiated(tree: CudaSource, entry: Function) -> Function:
    """The launch function `entry`; if it is a template, with the types that the source's only explicit
    instantiation (`go<float>(y, x)`) gives its parameters. Unchanged if it is no template, or there is not
    exactly one instantiation."""
    above = entry.node.parent
    if above is None or above.type != "template_declaration":
        return entry
    names = re.findall(r"(?:typename|class)\s+(\w+)", text(above.child_by_field_name("parameters")))
    calls = {found.strip() for found in re.findall(rf"\b{entry.name}\s*<([^<>]+)>\s*\(", tree.text)}
    if len(calls) != 1:
        return entry
    kinds = dict(zip(names, (kind.strip() for kind in calls.pop().split(",")), strict=False))
    parameters = tuple(replace(p, kind=kinds.get(p.kind, p.kind)) for p in entry.parameters)
    return replace(entry, parameters=parameters)


def _on_device(tree: CudaSource, entry: Function, path: str) -> Function:
    """Checks that the user's launch function `entry` takes device memory, and returns it. Raises BadTask,
    with an example of such a function, if it allocates memory or copies between host and device itself."""
    for call in walk(entry.body, "call_expression"):
        name = text(call.child_by_field_name("function"))
        if name in ("cudaMalloc", "cudaMallocManaged") or re.search("HostToDevice|DeviceToHost", text(call)):
            kernel = next(launch.kernel for launch in tree.launches if launch.caller.node == entry.node)
            found = tree.function(kernel)
            example = f", for example:\n\n{_launcher(found)}" if found is not None else "."
            raise BadTask(
                f"{path}: {entry.name} allocates or copies host memory; give a function in its place that "
                f"takes device pointers and launches alone{example}"
            )
    return entry


# Inferring declarations


def _inferred(tree: CudaSource, entry: Function, path: str) -> list[str]:
    """The comment lines that declare the sizes, outputs and inputs of the launch function `entry`, inferred
    from its kernels; `tree` is the parsed source, `path` its file for messages. Sizes get assumed values.
    Raises BadTask, with these lines as a template, if a tensor's extent or a scalar's value cannot be
    inferred."""
    inferred = extents(tree, entry)
    sizes = [p for p in entry.parameters if not p.pointer and p.kind in WHOLE]
    _assign_last_size(inferred, [p.name for p in sizes])
    rank = max((len(dims) for dims in inferred.dims.values()), default=1)
    lines = [_size_line(p.name, [s.name for s in sizes], rank) for p in sizes]
    lines += [f"// size: {name} = {value}, fixed" for name, value in inferred.constants.items()]
    widths = sorted({VECTORS[p.kind][1] for p in entry.pointers if p.kind in VECTORS})
    lines += [f"// size: {_lanes(width)} = {width}, fixed" for width in widths]
    unclear = []
    for parameter in entry.pointers:
        dtype, width = VECTORS.get(parameter.kind, (DTYPES.get(parameter.kind), 1))
        if dtype is None:
            raise BadTask(
                f"{path}: {parameter.name} points to {parameter.kind}, which is no type of a tensor; let "
                f"{entry.name} take a pointer to one of {', '.join(C_TYPES.values())}, and cast it there."
            )
        seen = inferred.dims.get(parameter.name, (UNKNOWN,))
        dims = ((UNKNOWN,) if {*seen} == {UNKNOWN} else seen) + ((_lanes(width),) if width > 1 else ())
        shape = f"{dtype} [{', '.join(dims)}]"
        values = _values(parameter, inferred, dtype)
        if UNKNOWN in f"{shape} {values}":
            unclear.append(parameter.name)
        if parameter.const or parameter.name not in inferred.changed:
            lines.append(f"// input: {parameter.name} {shape} {values}")
        else:
            lines.append(f"// output: {parameter.name} {shape}")
            if parameter.name in inferred.read:
                lines.append(f"// input: {parameter.name}{BEFORE} {shape} {values}")
    given = [p for p in entry.parameters if not p.pointer and p.kind in REAL]
    lines += [f"// value: {p.name} = {USUAL.get(p.name.lower(), UNKNOWN)}" for p in given]
    unclear += [p.name for p in given if p.name.lower() not in USUAL]
    if unclear:
        raise BadTask(
            f"{path}: it does not show the sizes or values of {', '.join(unclear)}; add these lines at its "
            f"head, with what is meant in the place of each {UNKNOWN} (docs/tasks.md):\n\n"
            "// kernelblaster-task\n" + "\n".join(lines)
        )
    return lines


def _lanes(width: int) -> str:
    """The name of the last dimension of a tensor whose elements in CUDA are vectors of `width` components
    (`float4`: lanes4)."""
    return f"lanes{width}"


def _assign_last_size(inferred: Extents, sizes: Sequence[str]) -> None:
    """Completes inferred extents in place: if exactly one of the `sizes` is in no tensor's extent and exactly
    one extent is unknown, that size is taken for it."""
    used = {name for dims in inferred.dims.values() for name in dims}
    idle = [name for name in sizes if name not in used]
    unknown = [name for name, dims in inferred.dims.items() if UNKNOWN in dims]
    if len(idle) == len(unknown) == 1 and inferred.dims[unknown[0]].count(UNKNOWN) == 1:
        dims = inferred.dims[unknown[0]]
        inferred.dims[unknown[0]] = tuple(idle[0] if dim == UNKNOWN else dim for dim in dims)


def _size_line(name: str, sizes: Sequence[str], rank: int) -> str:
    """The declaration comment of the size `name` with assumed values for timing (primary) and for the
    emulator (small). `sizes` are the names of all sizes, `rank` is the largest number of dimensions of a
    tensor. Filter widths and numbers of bins, known by their names, are small and fixed."""
    product = {size.lower() for size in sizes} >= PRODUCT
    window = len(sizes) > 1 and not product and WINDOW.match(name) is not None
    bins = "bin" in name.lower()
    free = [s for s in sizes if (product or not WINDOW.match(s)) and "bin" not in s.lower()] or list(sizes)
    usual = OF_PRODUCTS if len(free) > rank == 2 else PRIMARY.get(rank, MORE_DIMENSIONS)
    value, small = ONE_WINDOW if window else BINS if bins else usual
    if not (window or bins) and len(free) > 1:
        small += 2 * free.index(name) if name in free else 0
    return f"// size: {name} = {value}, small {small}" + (", fixed" if window or bins else "")


def _values(parameter: Parameter, inferred: Extents, dtype: str) -> str:
    """The distribution to declare for the values of a tensor parameter of type `dtype`: "bool", "normal", for
    integers that index into another tensor (as `inferred` shows) `below` its first size, and `below 100` for
    other integers."""
    if not dtype.startswith(("int", "uint")):
        return "bool" if dtype == "bool" else "normal"
    target = inferred.indexing.get(parameter.name)
    if target is None:
        return "below 100"
    return f"below {inferred.dims[target][0] if inferred.dims[target] else UNKNOWN}"


def _launcher(kernel: Function) -> str:
    """Source of an example launch function for a kernel that has none, with one thread per element of its
    first size."""
    taken = [
        f"{'const ' if p.const else ''}{p.kind}{'*' if p.pointer else ''} {p.name}" for p in kernel.parameters
    ]
    sizes = [p.name for p in kernel.parameters if not p.pointer and p.kind in WHOLE]
    count = sizes[0] if sizes else UNKNOWN
    names = ", ".join(p.name for p in kernel.parameters)
    return (
        f"void launch({', '.join([*taken, f'{STREAM} stream'])}) {{\n"
        f"  {kernel.name}<<<({count} + 255) / 256, 256, 0, stream>>>({names});\n}}"
    )


# A launch function of the judge's


def _conforms(entry: Function, signature: Signature) -> bool:
    """Whether a launch function is exactly what KernelBlaster calls: its name, `extern "C"`, and the types of
    its parameters in the order of the signature. Names of parameters do not matter."""
    wanted = [*c_arguments(signature), (STREAM, "")]
    own = [
        (f"{'const ' if p.const else ''}{p.kind}{'*' if p.pointer else ''}", p.name) for p in entry.parameters
    ]
    aliases = {"int": "int32_t", "half": "__half"}
    kinds = [re.sub(r"\b(int|half)\b", lambda found: aliases[found[0]], kind) for kind, _ in own]
    above = entry.node.parent
    linked = above is not None and "extern" in text(above)[:12]
    return entry.name == ENTRY and linked and kinds == [kind for kind, _ in wanted]


def _adapted(tree: CudaSource, entry: Function, file: CudaFile, path: str) -> str:
    """The source with a launch function appended that has the form KernelBlaster calls; it calls the user's
    own, `entry`. The latter gets a stream parameter if it has none, and another name if both names are equal.
    `tree` is the parsed source, `file` its declarations, `path` its file for messages."""
    edits: list[Edit] = []
    name = entry.name
    if name == ENTRY:
        name = OWN
        names = [node for node in walk(tree.root, "identifier") if text(node) == ENTRY]
        edits += [(node.start_byte, node.end_byte, OWN) for node in names]
    stream = next((p.name for p in entry.parameters if p.kind == STREAM), None)
    if stream is None:
        edits += _with_stream(tree, entry)
    return f"{tree.edited(edits).rstrip()}\n\n{_call(entry, name, file, path)}"


def _with_stream(tree: CudaSource, entry: Function) -> list[Edit]:
    """The edits of a CUDA source that give its launch function `entry` a last parameter `stream`, put all its
    launches, copies and memsets on it, and remove device synchronization."""
    last = entry.parameters[-1].node.end_byte
    edits = [inserted(last, f", {STREAM} stream = 0")]
    for launch in tree.launches:
        if launch.caller.node == entry.node and len(launch.configuration) < 4:
            missing = ", 0" * (3 - len(launch.configuration)) + ", stream"
            edits.append(inserted(launch.configuration[-1].end_byte, missing))
    for call in walk(entry.body, "call_expression"):
        function, given = call.child_by_field_name("function"), call.child_by_field_name("arguments")
        if text(function) in ("cudaMemset", "cudaMemcpy") and function is not None and given is not None:
            edits += [inserted(function.end_byte, "Async"), inserted(given.end_byte - 1, ", stream")]
        if text(function) == "cudaDeviceSynchronize" and call.parent is not None:
            alone = call.parent.type == "expression_statement"  # else as in CHECK(cudaDeviceSynchronize())
            gone, left = (call.parent, "") if alone else (call, "cudaSuccess")
            edits.append((gone.start_byte, gone.end_byte, left))
    return edits


def _call(entry: Function, name: str, file: CudaFile, path: str) -> str:
    """Source of the launch function that KernelBlaster calls; it passes its arguments on to the user's
    (`entry`), now called `name`, with casts and the constants that `file` declares. Raises BadTask, which
    names `path`, if the user's takes a parameter that is not declared."""
    signature = file.signature
    known = {n for _, n in c_arguments(signature)}
    outputs = {tensor.name for tensor in signature.outputs}
    given = []
    for parameter in entry.parameters:
        if parameter.kind == STREAM:
            given.append("stream")
        elif parameter.name in file.values:
            given.append(f"({parameter.kind}){file.values[parameter.name]}")
        elif parameter.name in known:
            kind = parameter.kind + ("*" if parameter.pointer else "")
            same = parameter.const or kind == "int64_t" or parameter.name in outputs
            const = "const " if parameter.const else ""
            cast = "" if same and parameter.kind not in CAST else f"({const}{kind})"
            given.append(f"{cast}{parameter.name}")
        else:
            raise BadTask(
                f"{path}: {name} takes {parameter.name}, which no comment declares (docs/tasks.md)."
            )
    if all(parameter.kind != STREAM for parameter in entry.parameters):
        given.append("stream")
    taken = ", ".join(f"{kind} {argument}" for kind, argument in c_arguments(signature))
    copies = "".join(_copy(tensor.name, signature) for tensor in signature.outputs)
    return (
        f'{ADDED}\n#include <cstdint>\nextern "C" void {ENTRY}(\n    {taken}, {STREAM} stream) {{\n'
        f"{copies}  {name}({', '.join(given)});\n}}\n"
    )


def _copy(output: str, signature: Signature) -> str:
    """Code that fills the output `output` before the kernel runs, for one that the kernel also reads
    (declared with an input named OUTPUT_before): it copies that input to it. Empty text for other outputs."""
    before = next((t for t in signature.inputs if t.name == output + BEFORE), None)
    if before is None:
        return ""
    tensor = next(t for t in signature.outputs if t.name == output)
    count = " * ".join((*tensor.dims, f"sizeof({C_TYPES[tensor.dtype]})"))
    return f"  cudaMemcpyAsync({output}, {before.name}, {count}, cudaMemcpyDeviceToDevice, stream);\n"
