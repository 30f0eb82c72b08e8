"""Capture: a task's module as a graph (graph.py).

The module is exported by torch.export at every workload of the task, and where these leave two sizes equal
at one more, on fake tensors, so that nothing is computed; the traces must agree in their operators, and what
differs between them (extents, slices, factors made of extents) is explained by the sizes (unify.py).

The exported program is decomposed into core operators by tracing it once more. Its own method
`run_decompositions` gives the same operators, but needs ten times as long.
"""

import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch._decomp import core_aten_decompositions
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export.graph_signature import InputKind, OutputKind
from torch.func import functionalize
from torch.fx.experimental.proxy_tensor import make_fx

from kernelblaster.policies.expert import index as indices
from kernelblaster.policies.expert.graph import (
    INSTEAD,
    Graph,
    Node,
    Reference,
    Result,
    UncoveredOperators,
    needed,
    references,
)
from kernelblaster.policies.expert.index import Index
from kernelblaster.policies.expert.indexing import PlainIndexing
from kernelblaster.policies.expert.unify import NotUniform, Unifier
from kernelblaster.policies.expert.window_extents import WindowCount, window_counts
from kernelblaster.records import Scalar, Signature, Task, Workload
from kernelblaster.tasks.derive import cast, cast_of, convert, dtype_name
from kernelblaster.tasks.foreign import kept_going
from kernelblaster.tasks.module_file import ModuleFile, c_name
from kernelblaster.tasks.plain_attention import plain_attention
from kernelblaster.tasks.size_draws import SizeDraws
from kernelblaster.tasks.small import find_small

COPIES = ("clone.default", "_to_copy.default", "alias.default", "lift_fresh_copy.default")
UNROLLED = ("gru.input", "lstm.input", "rnn_tanh.input", "rnn_relu.input")  # into a step for each time


@dataclass(frozen=True)
class _Trace:
    """`tensors` maps placeholders to names of the signature; `numbers` are the inputs by value."""

    nodes: list[torch.fx.Node]
    outputs: list[torch.fx.Node]
    tensors: dict[str, str]
    numbers: list[float]


def capture(task: Task) -> Graph:
    """The graph of a task of kind `module`."""
    file = ModuleFile(task.source, task.path)
    workloads = (*task.workloads, *_telling_apart(task))
    traces = [_trace(file, task, workload, place) for place, workload in enumerate(workloads)]
    _check_uniform(task, traces)
    sizes = {size.name: tuple(w.sizes[size.name] for w in workloads) for size in task.signature.sizes}
    scalars = [item.name for item in task.signature.inputs if isinstance(item, Scalar)]
    numbers = {name: tuple(t.numbers[i] for t in traces) for i, name in enumerate(scalars)}
    reader = _Reader(Unifier(sizes, numbers), task.signature, traces, [w.sizes for w in workloads])
    try:
        nodes = [reader.node(column) for column in zip(*(t.nodes for t in traces), strict=True)]
    except NotUniform as error:
        raise NotUniform(f"{task.name}: {error} {INSTEAD}") from error
    outputs = [reader.reference(column) for column in zip(*(t.outputs for t in traces), strict=True)]
    return Graph(
        signature=task.signature,
        nodes=needed([node for node in nodes if node is not None], outputs),
        outputs=tuple(outputs),
        sizes=tuple(workload.sizes for workload in workloads),
    )


def _telling_apart(task: Task) -> Iterator[Workload]:
    """Further workloads, at which free sizes differ that are equal in all of the task's own: the height and
    width of images, where only square ones are among them."""
    alike: dict[tuple[int, ...], list[str]] = {}
    for size in task.signature.sizes:
        if size.kind == "free":
            alike.setdefault(tuple(w.sizes[size.name] for w in task.workloads), []).append(size.name)
    for names in alike.values():
        workload = SizeDraws(task).apart(names) if len(names) > 1 else None
        if workload is not None:
            yield workload


def _check_uniform(task: Task, traces: Sequence[_Trace]) -> None:
    first = traces[0]
    for trace in traces[1:]:
        if [n.target for n in trace.nodes] == [n.target for n in first.nodes]:
            continue
        one, other = (Counter(str(n.target) for n in t.nodes) for t in (first, trace))
        changing = sorted(name.removeprefix("aten.") for name in (one - other) | (other - one))
        which = f" ({', '.join(changing)})" if changing else ""
        loops = one.keys() == other.keys()
        how = "runs a loop whose length is a size" if loops else "uses other operators at other sizes"
        raise NotUniform(f"{task.name}: the module {how}{which}. {INSTEAD}")


def _trace(file: ModuleFile, task: Task, workload: Workload, place: int) -> _Trace:
    dtype = cast_of(task)
    constants = (find_small(file, dtype) or {}) if workload.module == "small" else {}
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    with file.replaced(constants), mode, plain_attention(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = convert(file.build(), dtype)
        shapes = iter(workload.shape(tensor) for tensor in task.signature.input_tensors)
        inputs: list[Any] = []
        for value in file.inputs():
            if isinstance(value, torch.Tensor):
                inputs.append(torch.zeros(next(shapes), dtype=cast(value, dtype).dtype))
            else:  # another value in each trace, so that it is recognized where it is used
                inputs.append(value + 0.5 * place if isinstance(value, float) else value)
        with kept_going("forward()"), torch.no_grad():
            with PlainIndexing():
                exported = torch.export.export(module, tuple(inputs), strict=False)
            graph = _decomposed(exported)
    return _read(exported, graph, task.signature, inputs)


@cache
def _decompositions() -> dict[Any, Callable[..., Any]]:
    """Core operators, and nearest-neighbour upsampling as it is, instead of look-ups by computed places."""
    known = core_aten_decompositions().items()  # type: ignore[no-untyped-call]
    return {target: rule for target, rule in known if "::upsample_nearest" not in target.name()}


def _decomposed(exported: torch.export.ExportedProgram) -> torch.fx.Graph:
    """Core operators that change nothing in place; placeholders and outputs are as they were."""
    operators = {str(n.target).removeprefix("aten.") for n in exported.graph.nodes}
    if operators & set(UNROLLED):
        raise UncoveredOperators(sorted(operators & set(UNROLLED)))
    values = [n.meta["val"] for n in exported.graph.nodes if n.op == "placeholder"]
    traced = make_fx(exported.graph_module, decomposition_table=_decompositions())(*values)
    if any(_changes_operands(node) for node in traced.graph.nodes):
        traced = make_fx(functionalize(traced), decomposition_table=_decompositions())(*values)
    return traced.graph


def _changes_operands(node: torch.fx.Node) -> bool:
    schema = getattr(node.target, "_schema", None)
    return schema is not None and schema.is_mutable


def _read(
    exported: torch.export.ExportedProgram, graph: torch.fx.Graph, signature: Signature, inputs: list[Any]
) -> _Trace:
    given = {t.name for t in signature.parameters}
    names = iter(item.name for item in signature.inputs)
    tensors = {}
    placeholders = [node for node in graph.nodes if node.op == "placeholder"]
    for spec, placeholder in zip(exported.graph_signature.input_specs, placeholders, strict=True):
        if spec.kind == InputKind.USER_INPUT:
            tensors[placeholder.name] = next(names)
        elif spec.kind in (InputKind.PARAMETER, InputKind.BUFFER):
            safe = c_name(str(spec.target))
            tensors[placeholder.name] = safe if safe in given else f"{safe}_parameter"
        else:
            raise UncoveredOperators((f"the constant tensor {spec.target} (register it as a buffer)",))
    results: Any = graph.output_node().args[0]
    kinds = [spec.kind for spec in exported.graph_signature.output_specs]
    outputs = [_original(r) for r, kind in zip(results, kinds, strict=True) if kind == OutputKind.USER_OUTPUT]
    numbers = [value for value in inputs if not isinstance(value, torch.Tensor)]
    return _Trace(_needed(graph, outputs), outputs, tensors, numbers)


def _original(node: torch.fx.Node) -> torch.fx.Node:
    """What a node is a copy of: a copy has another layout at most, and whether one is made depends on
    the sizes."""
    while str(node.target).removeprefix("aten.") in COPIES:
        source: Any = node.args[0]
        if source.meta["val"].dtype != node.meta["val"].dtype:
            break
        node = source
    return node


def _needed(graph: torch.fx.Graph, outputs: list[torch.fx.Node]) -> list[torch.fx.Node]:
    """Operators that an output depends on, without copies."""
    wanted = set(outputs)
    kept = []
    for node in reversed(graph.nodes):
        if node in wanted and node.op == "call_function":
            wanted |= {_original(source) for source in node.all_input_nodes}
            kept.append(node)
    return kept[::-1]


class _Reader:
    """Reads the same node in all traces at once."""

    def __init__(
        self,
        unifier: Unifier,
        signature: Signature,
        traces: Sequence[_Trace],
        sizes: Sequence[Mapping[str, int]],
    ) -> None:
        self._unifier = unifier
        self._tensors = [trace.tensors for trace in traces]
        self._sizes = sizes
        self._shapes = {
            Reference(t.name): tuple(indices.variable(d) for d in t.dims) for t in signature.read_tensors
        }
        self._after_windows: set[Reference] = set()

    def node(self, column: tuple[torch.fx.Node, ...]) -> Node | None:
        first = column[0]
        if _is_selection(first):
            return None
        metas = [n.meta["val"] for n in column]
        several = isinstance(metas[0], tuple | list)
        results = zip(*metas, strict=True) if several else [tuple(metas)]
        target: Any = first.target
        schema = target._schema.arguments
        given = [_given(node, schema) for node in column]
        arguments = {a.name: self._argument([found[a.name] for found in given]) for a in schema}
        operator = str(first.target).removeprefix("aten.")
        counts = self._counts(operator, given)
        likely = self._likely(arguments, counts)
        found = tuple(self._result(r, likely) for r in results if isinstance(r[0], torch.Tensor))
        own = [Reference(first.name, place) for place in range(len(found))]
        self._shapes |= {reference: result.shape for reference, result in zip(own, found, strict=True)}
        self._after_windows |= set(own) if likely else set()
        return Node(first.name, operator, arguments, found)

    def reference(self, column: tuple[torch.fx.Node, ...]) -> Reference:
        node = _original(column[0])
        if _is_selection(node):
            source = node.args[0]
            assert isinstance(source, torch.fx.Node)
            return Reference(source.name, node.args[1])  # type: ignore[arg-type]
        return Reference(self._tensors[0].get(node.name, node.name))

    def _counts(self, operator: str, given: Sequence[Mapping[str, Any]]) -> list[WindowCount]:
        """Of a node with windows, if they lie alike in all traces."""
        counts = [window_counts(operator, found) for found in given]
        return counts[0] if all(other == counts[0] for other in counts) else []

    def _likely(self, arguments: Mapping[str, Any], counts: Sequence[WindowCount]) -> list[Index | None]:
        """What the extents of a node's result probably are: counts of its operand's windows, or the same as
        the operand's, where that comes from windows. Extents of other origin may have the same values."""
        if counts:
            operand = arguments["input"] if "input" in arguments else arguments["self"]
            *leading, channels = self._shapes[operand][: -len(counts)]
            extents = self._shapes[operand][-len(counts) :]
            counted = [count.of(extent) for count, extent in zip(counts, extents, strict=True)]
            return [*leading, None if "weight" in arguments else channels, *counted]
        known = [self._shapes[r] for r in references(arguments) if r in self._after_windows]
        longest = max(known, key=len, default=())
        return [*longest]

    def _result(self, tensors: tuple[torch.Tensor, ...], likely: Sequence[Index | None]) -> Result:
        extents = [tuple(extent) for extent in zip(*(t.shape for t in tensors), strict=True)]
        if len(likely) != len(extents):
            likely = [None] * len(extents)
        shape = tuple(self._extent(values, index) for values, index in zip(extents, likely, strict=True))
        return Result(shape, dtype_name(tensors[0].dtype))

    def _extent(self, values: tuple[int, ...], likely: Index | None) -> Index:
        """An expression with these values, the likely one if it has them."""
        if likely is not None and values == tuple(indices.evaluate(likely, sizes) for sizes in self._sizes):
            return self._unifier.whole(values, likely)
        return self._unifier.whole(values)

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


def _given(node: torch.fx.Node, schema: Sequence[Any]) -> dict[str, Any]:
    """A node's arguments by name, with defaults."""
    named = {a.name: node.kwargs.get(a.name, a.default_value) for a in schema[len(node.args) :]}
    return {a.name: value for a, value in zip(schema, node.args, strict=False)} | named


def _is_selection(node: torch.fx.Node) -> bool:
    return getattr(node.target, "__name__", "") == "getitem"
