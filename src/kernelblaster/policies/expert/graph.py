"""A task's module as a small graph whose shapes are expressions of the signature's sizes.

The module is exported by torch.export at every workload of the task, on fake tensors, so that
nothing is computed; the traces must agree in their operators, and what differs between them
(extents, slices, factors made of extents) is explained by the sizes (unify.py).
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.attention import SDPBackend, sdpa_kernel

from kernelblaster.policies.expert import index as indices
from kernelblaster.policies.expert.expression import Counted, Expression, Number
from kernelblaster.policies.expert.index import Index
from kernelblaster.policies.expert.unify import NotUniform, Unifier
from kernelblaster.records import Scalar, Signature, Task, Workload
from kernelblaster.records.signature import Dtype
from kernelblaster.tasks.derive import cast, convert, dtype_name, find_small
from kernelblaster.tasks.module_file import ModuleFile


@dataclass(frozen=True)
class Reference:
    """A result of a node, or a tensor of the signature."""

    name: str
    result: int = 0


@dataclass(frozen=True)
class Result:
    shape: tuple[Index, ...]
    dtype: Dtype


@dataclass(frozen=True)
class Node:
    """One operator. `arguments` are named as in its schema: references, whole numbers as Index,
    other numbers as expressions, and tuples of these."""

    name: str
    operator: str
    arguments: Mapping[str, Any]
    results: tuple[Result, ...]


@dataclass(frozen=True)
class Graph:
    """Nodes in the order of execution; `sizes` holds every size's value in each workload."""

    signature: Signature
    nodes: tuple[Node, ...]
    outputs: tuple[Reference, ...]
    sizes: tuple[Mapping[str, int], ...]

    def values(self, index: Index) -> tuple[int, ...]:
        """What an extent is in each workload."""
        return tuple(indices.evaluate(index, sizes) for sizes in self.sizes)


@dataclass(frozen=True)
class _Trace:
    nodes: list[torch.fx.Node]
    outputs: list[torch.fx.Node]
    tensors: dict[str, str]
    numbers: list[float]


def capture(task: Task) -> Graph:
    """The graph of a task of kind `module`."""
    file = ModuleFile(task.source, task.path)
    traces = [_trace(file, task, place) for place in range(len(task.workloads))]
    first = traces[0]
    for trace in traces[1:]:
        if [n.target for n in trace.nodes] != [n.target for n in first.nodes]:
            raise NotUniform(f"{task.name}: the module uses other operators at other sizes.")
    sizes = {size.name: tuple(w.sizes[size.name] for w in task.workloads) for size in task.signature.sizes}
    scalars = [item.name for item in task.signature.inputs if isinstance(item, Scalar)]
    numbers = {name: tuple(t.numbers[i] for t in traces) for i, name in enumerate(scalars)}
    reader = _Reader(Unifier(sizes, numbers), [t.tensors for t in traces])
    try:
        nodes = [reader.node(column) for column in zip(*(t.nodes for t in traces), strict=True)]
    except NotUniform as error:
        raise NotUniform(f"{task.name}: {error}") from error
    outputs = [reader.reference(column) for column in zip(*(t.outputs for t in traces), strict=True)]
    return Graph(
        signature=task.signature,
        nodes=needed([node for node in nodes if node is not None], outputs),
        outputs=tuple(outputs),
        sizes=tuple(workload.sizes for workload in task.workloads),
    )


def _trace(file: ModuleFile, task: Task, place: int) -> _Trace:
    workload: Workload = task.workloads[place]
    dtype = getattr(torch, task.dtype)
    constants = (find_small(file, dtype) or {}) if workload.module == "small" else {}
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    with file.replaced(constants), mode, sdpa_kernel(SDPBackend.MATH), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = convert(file.build(), dtype)
        shapes = iter(workload.shape(tensor) for tensor in task.signature.input_tensors)
        inputs: list[Any] = []
        for value in file.inputs():
            if isinstance(value, torch.Tensor):
                inputs.append(torch.zeros(next(shapes), dtype=cast(value, dtype).dtype))
            else:  # another value in each trace, so that it is recognized where it is used
                inputs.append(value + 0.5 * place if isinstance(value, float) else value)
        with torch.no_grad():
            exported = torch.export.export(module, tuple(inputs), strict=False).run_decompositions()
    return _read(exported, task.signature, inputs)


def _read(exported: Any, signature: Signature, inputs: list[Any]) -> _Trace:
    parts = exported.graph_signature
    tensors = dict(zip(parts.user_inputs, [item.name for item in signature.inputs], strict=False))
    given = {t.name for t in signature.parameters}
    for placeholder, name in {**parts.inputs_to_parameters, **parts.inputs_to_buffers}.items():
        safe = name.replace(".", "_")
        tensors[placeholder] = safe if safe in given else f"{safe}_parameter"
    by_name = {node.name: node for node in exported.graph.nodes}
    outputs = [by_name[name] for name in parts.user_outputs]
    nodes = [node for node in exported.graph.nodes if node.op == "call_function"]
    return _Trace(nodes, outputs, tensors, [v for v in inputs if not isinstance(v, torch.Tensor)])


class _Reader:
    """Reads the same node in all traces at once."""

    def __init__(self, unifier: Unifier, tensors: list[dict[str, str]]) -> None:
        self._unifier = unifier
        self._tensors = tensors

    def node(self, column: tuple[torch.fx.Node, ...]) -> Node | None:
        first = column[0]
        if _is_selection(first):
            return None
        metas = [n.meta["val"] for n in column]
        several = isinstance(metas[0], tuple | list)
        results = zip(*metas, strict=True) if several else [tuple(metas)]
        target: Any = first.target
        schema = target._schema.arguments
        arguments: dict[str, Any] = {}
        for position, argument in enumerate(schema):
            values = []
            for node in column:
                if position < len(node.args):
                    values.append(node.args[position])
                else:
                    values.append(node.kwargs.get(argument.name, argument.default_value))
            arguments[argument.name] = self._argument(values)
        return Node(
            name=first.name,
            operator=str(first.target).removeprefix("aten."),
            arguments=arguments,
            results=tuple(self._result(r) for r in results if isinstance(r[0], torch.Tensor)),
        )

    def reference(self, column: tuple[torch.fx.Node, ...]) -> Reference:
        node = column[0]
        if _is_selection(node):
            source = node.args[0]
            assert isinstance(source, torch.fx.Node)
            return Reference(source.name, node.args[1])  # type: ignore[arg-type]
        return Reference(self._tensors[0].get(node.name, node.name))

    def _result(self, tensors: tuple[torch.Tensor, ...]) -> Result:
        extents = zip(*(t.shape for t in tensors), strict=True)
        return Result(tuple(self._unifier.whole(tuple(e)) for e in extents), dtype_name(tensors[0].dtype))

    def _argument(self, values: list[Any]) -> Any:
        first = values[0]
        if isinstance(first, torch.fx.Node):
            return self.reference(tuple(values))
        if isinstance(first, list | tuple):
            if len({len(v) for v in values}) > 1:
                raise NotUniform("an operator takes a list of another length at other sizes.")
            return tuple(self._argument(list(column)) for column in zip(*values, strict=True))
        if isinstance(first, torch.dtype):
            return dtype_name(first)
        if isinstance(first, bool) or not isinstance(first, int | float):
            return first
        if all(isinstance(v, int) for v in values):
            return self._unifier.whole(tuple(values))
        return self._unifier.number(tuple(float(v) for v in values))


def as_expression(value: Any) -> Expression:
    """A number among a node's arguments, for use in arithmetic."""
    if isinstance(value, Index):
        return Number(value.value, "whole") if value.operator == "int" else Counted(value)
    return value if not isinstance(value, bool) else Number(value, "truth")


def _is_selection(node: torch.fx.Node) -> bool:
    return getattr(node.target, "__name__", "") == "getitem"


def needed(nodes: Sequence[Node], outputs: Sequence[Reference]) -> tuple[Node, ...]:
    """Without what no output depends on (the new running averages of a normalization)."""
    wanted = {reference.name for reference in outputs}
    kept: list[Node] = []
    for node in reversed(nodes):
        if node.name in wanted:
            kept.append(node)
            wanted |= {r.name for r in references(node.arguments)}
    return tuple(reversed(kept))


def references(argument: Any) -> list[Reference]:
    """Every reference within an argument or a collection of them."""
    if isinstance(argument, Reference):
        return [argument]
    if isinstance(argument, Mapping):
        argument = tuple(argument.values())
    if isinstance(argument, tuple):
        return [found for part in argument for found in references(part)]
    return []
