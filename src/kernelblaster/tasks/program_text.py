"""Writes a program of torch.export as the text of a task: a file with a Model in ATen operators that can be
built in any process, without the original code."""

import keyword
import math
import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, InputKind, OutputKind
from torch.utils import _pytree as pytree

from kernelblaster.errors import BadTask
from kernelblaster.plain_text import comment
from kernelblaster.tasks.tensor_expressions import DECODED, LIKE, drawn

HOLD = '''
def _hold(module, name, value, kind="parameter"):
    """Keep a tensor under its dotted name."""
    *path, last = name.split(".")
    for part in path:
        if part not in module._modules:
            module.add_module(part, torch.nn.Module())
        module = module._modules[part]
    if kind == "parameter":
        module.register_parameter(last, torch.nn.Parameter(value, requires_grad=False))
    else:
        module.register_buffer(last, value, persistent=kind == "buffer")
'''
ONLY = '''
def _only(name, value, exported):
    """Refuse another value of an argument than the one that the program was exported with."""
    if isinstance(value, torch.Tensor) or value != exported:
        raise TypeError(f"forward() was exported with {name}={exported!r}, and does nothing else")
'''
IGNORED = ("_assert", "sym_constrain", "_guards")


def program_source(program: ExportedProgram, inputs: Sequence[Any], title: str) -> str:
    """Returns a Python text with Model, get_inputs() and get_init_inputs() that computes the same as an
    exported program. `inputs` are example values of its tensor inputs, in order; `title` stands in the text's
    docstring. Parameters and inputs are drawn at random to resemble the given ones; constants and integer
    tensors keep their values. Where the program was exported with a number, string or None as a named
    argument, forward() has this argument too, and accepts only that value. Raises BadTask for programs that
    cannot be written so."""
    held = _held(program)
    extents = sorted({extent for _, value, _ in held for extent in value.shape if extent > 1})
    lines = [f"        _hold(self, {name!r}, {_kept(value, kind)})" for name, value, kind in held]
    names, body = _Forward(program).written()
    fixed = _fixed(program, names)
    taken = [*names, *(["*"] if fixed else []), *(f"{name}={value!r}" for name, value in fixed.items())]
    checks = "".join(f"        _only({name!r}, {name}, {value!r})\n" for name, value in fixed.items())
    values = [drawn(value, extents) for value in inputs]
    helpers = HOLD + (LIKE if "_like(" in "".join(lines + values) else "")
    helpers += DECODED if "_decoded(" in "".join(lines) else ""
    helpers += ONLY if fixed else ""
    return (
        f'"""{comment(title).replace(chr(34), "")}, as torch.export wrote it down."""\n\nimport operator\n\n'
        f"import torch\n\n{helpers}\n\nclass Model(torch.nn.Module):\n    def __init__(self):\n"
        "        super().__init__()\n" + "".join(f"{line}\n" for line in lines) + "\n"
        f"    def forward(self, {', '.join(taken)}):\n{checks}{body}\n\n"
        f"def get_inputs():\n    return [{', '.join(values)}]\n\n\ndef get_init_inputs():\n    return []\n"
    )


def _kept(value: torch.Tensor, kind: str) -> str:
    """The last arguments of the call of `_hold` that stores this tensor: an expression for its value, and
    its kind unless that is the default, "parameter"."""
    made = drawn(value, exact=kind == "constant" or not value.is_floating_point())
    return made if kind == "parameter" else f"{made}, {kind!r}"


def _held(program: ExportedProgram) -> list[tuple[str, torch.Tensor, str]]:
    """The tensors that an exported program keeps, each as (dotted name, value, kind); kind is "parameter",
    "buffer" or "constant"."""
    signature = program.graph_signature
    buffers = set(signature.buffers)
    held = {
        name: (
            value,
            "buffer" if name in buffers or not isinstance(value, torch.nn.Parameter) else "parameter",
        )
        for name, value in program.state_dict.items()
    }
    for name, value in program.constants.items():
        if isinstance(value, torch.Tensor):
            held.setdefault(name, (value, "constant"))
    return [(name, value, kind) for name, (value, kind) in held.items()]


def _fixed(program: ExportedProgram, names: Sequence[str]) -> dict[str, Any]:
    """The arguments that are no tensors and were given by name, with their values; without those called like
    one of the inputs (`names`)."""
    given = [spec.arg for spec in program.graph_signature.input_specs if spec.kind == InputKind.USER_INPUT]
    structure = program.call_spec.in_spec
    if structure is None or structure.num_leaves != len(given):
        return {}
    _, named = pytree.tree_unflatten(given, structure)
    constants = {name: one.value for name, one in named.items() if isinstance(one, ConstantArgument)}
    return {
        name: value
        for name, value in constants.items()
        if name not in (*names, "self", "torch", "operator") and _is_finite(value)
    }


def _is_finite(value: Any) -> bool:
    """Whether `repr` writes the value as Python reads it: not of inf and nan."""
    return not isinstance(value, float) or math.isfinite(value)


class _Forward:
    """Writes an exported graph as the statements of forward(). `_names` maps graph nodes to variable
    names, `_device` is the expression for the device of new tensors."""

    def __init__(self, program: ExportedProgram) -> None:
        self._program = program
        self._names: dict[str, str] = {}
        self._device = "None"

    def written(self) -> tuple[list[str], str]:
        """(names of the inputs, source of the body of forward()). Raises BadTask for graphs with control
        flow, or with state that is not a tensor."""
        lines, inputs = [], []
        placeholders = [node for node in self._program.graph.nodes if node.op == "placeholder"]
        for spec, node in zip(self._program.graph_signature.input_specs, placeholders, strict=True):
            name = (
                f"{node.name}_"
                if keyword.iskeyword(node.name) or node.name in ("self", "torch")
                else node.name
            )
            self._names[node.name] = name
            if spec.kind == InputKind.USER_INPUT:
                if not isinstance(spec.arg, ConstantArgument):
                    inputs.append(name)
                continue
            if spec.kind not in (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR):
                raise BadTask(f"the program keeps {spec.target}, which is no tensor.")
            if node.users:  # get_parameter() would refuse what stands for one while the module is traced
                lines.append(f"{name} = operator.attrgetter({spec.target!r})(self)")
        self._device = f"{inputs[0]}.device" if inputs else "None"
        for node in self._program.graph.nodes:
            if node.op == "call_function" and not _is_ignored(node):
                lines.append(f"{node.name} = {self._call(node)}")
            elif node.op not in ("placeholder", "output", "call_function"):
                raise BadTask(
                    f"the program has a part of its own ({node.target}) that is run under a condition."
                )
        lines.append(f"return {self._result()}")
        return inputs, "".join(f"        {line}\n" for line in lines)

    def _call(self, node: torch.fx.Node) -> str:
        """The Python expression for a graph node that calls an operator. Raises BadTask if the operator has
        no name to call it by."""
        arguments = [self._value(value) for value in node.args]
        if node.target is operator.getitem:
            return f"{arguments[0]}[{arguments[1]}]"
        arguments += [
            f"{key}={self._device if key == 'device' and value is not None else self._value(value)}"
            for key, value in node.kwargs.items()
        ]
        return f"{_function(node.target)}({', '.join(arguments)})"

    def _value(self, value: Any) -> str:
        """The Python expression for an argument of an operator: a variable, a list, the device, or a
        literal."""
        if isinstance(value, torch.fx.Node):
            return self._names.get(value.name, value.name)
        if isinstance(value, list | tuple):
            inside = ", ".join(self._value(one) for one in value)
            return f"[{inside}]"
        if isinstance(value, torch.device):
            return self._device
        if isinstance(value, float) and value in (float("inf"), float("-inf")):
            return f'float("{value}")'
        return repr(value)

    def _result(self) -> str:
        """The Python expression for what forward() returns, in the nested structure of the original module's
        result; buffers that the graph updates are left out."""
        results: Any = self._program.graph.output_node().args[0]
        specs = self._program.graph_signature.output_specs
        kept = [r for r, spec in zip(results, specs, strict=True) if spec.kind == OutputKind.USER_OUTPUT]
        structure = self._program.call_spec.out_spec
        values = [self._value(result) for result in kept]
        return _structured(pytree.tree_unflatten(values, structure) if structure else values)


def _is_ignored(node: torch.fx.Node) -> bool:
    """Whether a node of an exported graph only checks something (assertions on sizes) and computes nothing,
    so that the text needs no line for it."""
    name = getattr(node.target, "__name__", str(node.target))
    return name.startswith(IGNORED)


def _function(target: Any) -> str:
    """The dotted name under which generated code reaches an operator, such as torch.ops.aten.mul.Tensor.
    Raises BadTask if `target` is no ATen operator and is not in `operator` or `torch`."""
    if isinstance(target, torch._ops.OpOverload):
        return f"torch.ops.{target}"
    name = getattr(target, "__name__", "")
    for owner, module in (("operator", operator), ("torch", torch)):
        if getattr(module, name, None) is target:
            return f"{owner}.{name}"
    raise BadTask(f"the program calls {target}, which cannot be written down.")


def _structured(tree: Any) -> str:
    """The Python expression that builds nested lists, tuples and dicts; their leaves are expressions already,
    given as strings."""
    if isinstance(tree, str):
        return tree
    if isinstance(tree, dict):
        return "{" + ", ".join(f"{key!r}: {_structured(value)}" for key, value in tree.items()) + "}"
    inside = "".join(f"{_structured(value)}, " for value in tree).rstrip()
    return f"[{inside}]" if type(tree) is list else f"({inside})"
