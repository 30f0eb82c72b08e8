"""Exports a candidate as one Python file that does not depend on KernelBlaster: the task's source, the
kernel, and a module that runs the kernel instead of the original."""

import ast
import inspect
from pathlib import Path
from typing import Literal

from kernelblaster.errors import KernelBlasterError
from kernelblaster.export.cuda_file import complete_source
from kernelblaster.export.module_facts import ModuleFacts, module_facts
from kernelblaster.export.origin import Origin, header_lines
from kernelblaster.plain_text import printable
from kernelblaster.records import Scalar, Signature, Task, Tensor
from kernelblaster.tasks.flat_inputs import unflattened, with_plain_super
from kernelblaster.tasks.header import c_arguments
from kernelblaster.tasks.module_file import ModuleFile
from kernelblaster.tasks.size_draws import most_read_bytes

LAUNCHER = (Path(__file__).parent / "launcher.py").read_text().partition("in exported files ---\n")[2]
LAUNCHER = LAUNCHER.replace("\n# fmt: on\n", "")
MODELS = {
    "kernelbench": '''
KERNEL.build(native_architecture() if torch.cuda.is_available() else None)


class ModelNew(Model):
    """The same parameters and the same result by the kernel. On a GPU nothing else runs in its place:
    what the kernel is not for is an error. Without a GPU, the original module runs."""

    def __init__(self, *arguments, **named):
        super().__init__(*arguments, **named)
        self.built_otherwise = KERNEL.built_otherwise(arguments, named)

    def forward(self, *inputs, **named):
        out, reason = KERNEL.run(self, inputs, named)
        if out is None:
            if not torch.cuda.is_available():
                return super().forward(*inputs, **named)
            flat, _ = KERNEL.flat_inputs(inputs, named)
            flat = tuple(v.contiguous() if isinstance(v, torch.Tensor) else v for v in flat)
            reason = KERNEL.why_not(self, flat) if flat else reason
            if reason is not None:
                raise RuntimeError(f"not for this kernel: {reason}")
            out = KERNEL.launch(self, flat)
        return RESULT


same_signatures(ModelNew, Model)
''',
    "module": '''
KERNEL.build()


class OptimizedModel(Model):
    """The same parameters and the same result by the kernel, for what it was verified on, given by position
    or by name as the original takes it. For anything else the original module runs, and the reason is told
    once as a warning."""

    def __init__(self, *arguments, **named):
        super().__init__(*arguments, **named)
        self.built_otherwise = KERNEL.built_otherwise(arguments, named)

    def forward(self, *inputs, **named):
        out, reason = KERNEL.run(self, inputs, named)
        if out is None:
            result = super().forward(*inputs, **named)  # a call that is none ends here
            KERNEL.say_once(reason)
            return result
        return self.result_of(out)

    @staticmethod
    def result_of(out):
        """What forward() returns, made of the kernel's outputs."""
        return RESULT


same_signatures(OptimizedModel, Model)
''',
}


BY_POSITION = '''

def _by_position(given=get_init_inputs):
    """The arguments of the constructor in its own order, as KernelBench gives them."""
    bound = inspect.signature(Model).bind(**given())
    bound.apply_defaults()
    return list(bound.args)


get_init_inputs = _by_position
'''
TAKEN_BY_POSITION = '''

class _ByPosition(Model):
    """The module, with the arguments of get_init_inputs() by position, as KernelBench gives them."""

    def __init__(self, NAMES):
        super().__init__(NAMED)


def _by_position(given=get_init_inputs):
    return list(given().values())


Model, get_init_inputs = _ByPosition, _by_position
'''


def python_file(task: Task, origin: Origin, form: Literal["kernelbench", "module"]) -> str:
    """Returns the text of a Python file with the task's source, the kernel of `origin`, and a module that
    runs it. The module is called ModelNew for the form "kernelbench" and OptimizedModel for "module". Raises
    KernelBlasterError if the task is a CUDA source, if names in the file clash, or, for "module", if the
    module writes to its buffers, which the kernel would not do, or returns something that cannot be
    exported."""
    if task.kind != "module":
        raise KernelBlasterError(
            f"{task.name}: is a CUDA source, there is no module to stand in for; export it with --format cu."
        )
    check_names(task)
    facts = module_facts(task)
    if form == "module" and facts.changed_buffers:
        raise KernelBlasterError(
            f"{task.name}: {changes(facts)}; or export this with --format kernelbench or cu."
        )
    head = "\n".join(["# coding: utf-8", *(f"# {line}" for line in header_lines(origin))])
    model = MODELS[form].replace("RESULT", facts.result)
    source, call = unflattened(task.source) if form == "module" else (task.source, None)
    if form == "kernelbench":
        source = _built_by_position(task)
    parts = (head, "", source.strip(), "\n\n# The kernel, and how it is called.", LAUNCHER.strip())
    return "\n".join((*parts, "\n", _kernel(task, origin, facts, call))) + "\n" + model


def changes(facts: ModuleFacts) -> str:
    """Returns, in words for the user, why a module whose forward() writes to buffers (those in
    `facts.changed_buffers`) cannot be exported, and what to do about it. There is no full stop at the end."""
    return (
        f"forward() changes the module's buffers ({', '.join(facts.changed_buffers)}), which the kernel does "
        "not; end __init__ with self.eval() if they are statistics for training, else leave them out"
    )


def _built_by_position(task: Task) -> str:
    """The task's source, with code at its end that lets get_init_inputs() give a list where it gives a dict.
    Where the constructor takes some of the arguments by name only, a class that takes all by position has the
    name Model."""
    file = ModuleFile(task.source, task.path)
    arguments = file.init_inputs()
    if not isinstance(arguments, dict):
        return task.source
    kinds = {name: one.kind for name, one in inspect.signature(file.model).parameters.items()}
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    if all(kinds.get(name) in positional for name in arguments):
        return task.source.rstrip() + BY_POSITION
    names, named = ", ".join(arguments), ", ".join(f"{name}={name}" for name in arguments)
    added = TAKEN_BY_POSITION.replace("NAMES", names).replace("NAMED", named)
    return with_plain_super(task.source).rstrip() + added


def _kernel(task: Task, origin: Origin, facts: ModuleFacts, call: str | None) -> str:
    """The Python code of the exported file that creates KERNEL: the CUDA source, the signature for the
    launcher, and `call`, the code of a function that makes a call of the module from the kernel's inputs."""
    signature = task.signature
    inputs = [(i.name, i.kind) if isinstance(i, Scalar) else _tensor(i.name, i) for i in signature.inputs]
    pairs = zip(facts.parameters, signature.parameters, strict=True)
    fields = {
        "architecture": origin.architecture,
        "outputs": [_tensor(t.name, t) for t in signature.outputs],
        "inputs": inputs,
        "parameters": [_tensor(name, t) for name, t in pairs],
        "sizes": {
            s.name: task.primary.sizes[s.name] if s.kind == "fixed" else s.kind for s in signature.sizes
        },
        "modes": facts.modes,
        "most_bytes": most_read_bytes(task),
    }
    described = "".join(f"    {name}={value!r},\n" for name, value in fields.items())
    source = complete_source(task, origin.candidate) + _wrapper(signature)
    return (
        f"CUDA_SOURCE = {_text(source)}\n\n"
        "KERNEL = ExportedKernel(\n    source=CUDA_SOURCE,\n    model=Model,\n"
        f"    built_with=get_init_inputs(),\n{described}    call={call},\n)"
    )


def _tensor(name: str, tensor: Tensor) -> tuple[str, str, tuple[str, ...]]:
    """A tensor argument as the exported file describes it to its launcher: (name, type, names of its
    sizes)."""
    return name, tensor.dtype, tensor.dims


def _wrapper(signature: Signature) -> str:
    """The source of a C function `exported_launch`, which calls the kernel's launch function for this
    signature and returns the launch's error message, or null."""
    arguments = c_arguments(signature)
    taken = ", ".join(f"{kind} {name}" for kind, name in arguments)
    given = ", ".join(name for _, name in arguments)
    return (
        f'\nextern "C" const char* exported_launch({taken}, cudaStream_t stream) {{\n'
        f"  launch_gpu_implementation({given}, stream);\n"
        "  cudaError_t error = cudaGetLastError();\n"
        "  return error == cudaSuccess ? nullptr : cudaGetErrorString(error);\n}\n"
    )


def _text(source: str) -> str:
    """Writes a CUDA source as a Python string literal for the exported file: raw in triple quotes if its
    characters allow that."""
    unsafe = "'''" in source or printable(source) != source
    return ascii(source) if unsafe else f"r'''\n{source}'''"


def check_names(task: Task) -> None:
    """Raise KernelBlasterError if the task and the launcher, which share one file, use a name for different
    things."""
    mine, theirs = _bound(LAUNCHER), _bound(task.source)
    reserved = dict.fromkeys(("ModelNew", "OptimizedModel", "KERNEL", "CUDA_SOURCE"), "")
    clashes = [n for n, what in theirs.items() if (mine | reserved).get(n, what) != what]
    if clashes:
        raise KernelBlasterError(
            f"{task.path}: an exported file has another use for the name {', '.join(clashes)}; rename it."
        )


def _bound(source: str) -> dict[str, str]:
    """The names that a source binds at its top level, each with what it is bound to: the imported thing, or
    the line."""
    bindings: dict[str, str] = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.Import):
            bindings |= {(a.asname or a.name).split(".")[0]: a.name.split(".")[0] for a in node.names}
        elif isinstance(node, ast.ImportFrom):
            bindings |= {a.asname or a.name: f"{node.module}.{a.name}" for a in node.names}
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            bindings[node.name] = f"line {node.lineno}"
        elif isinstance(node, ast.Assign):
            names = [n.id for t in node.targets for n in ast.walk(t) if isinstance(n, ast.Name)]
            bindings |= dict.fromkeys(names, f"line {node.lineno}")
    return bindings
