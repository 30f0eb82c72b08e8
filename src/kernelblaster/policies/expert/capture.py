"""Captures a task's PyTorch module as a graph of operators with symbolic sizes (graph.py).

The module is traced (tracing.py) once for each workload of the task, on tensors without content, so that
nothing is computed. If two sizes are equal in all workloads (square images), one more trace tells them apart.
If the traces do not all have the same operators, the task cannot be captured (NotUniform). Where they differ
in extents, slices or factors, these are expressed by the task's sizes (unify.py).
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

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
from kernelblaster.policies.expert.tracing import (
    UNNAMED,
    TracedCall,
    TracedValue,
    original,
    trace_module,
)
from kernelblaster.policies.expert.unify import NotUniform, Unifier
from kernelblaster.policies.expert.window_extents import WindowCount, window_counts
from kernelblaster.records import Scalar, Signature, Task, Workload
from kernelblaster.tasks.device_redirect import DeviceRedirect
from kernelblaster.tasks.foreign import kept_going
from kernelblaster.tasks.module_file import ModuleFile
from kernelblaster.tasks.module_state import cast, cast_of, convert, dtype_name, state_of
from kernelblaster.tasks.plain_attention import plain_attention
from kernelblaster.tasks.quiet import quiet
from kernelblaster.tasks.size_draws import SizeDraws
from kernelblaster.tasks.small import find_small

RESIZED = ("view.default", "_unsafe_view.default", "reshape.default", "expand.default")  # may be given -1


@dataclass(frozen=True)
class _Trace:
    """One trace of the module: the operator calls that outputs depend on, the outputs, and the inputs that
    are plain numbers."""

    calls: list[TracedCall]
    outputs: list[TracedValue]
    numbers: list[float]


def capture(task: Task) -> Graph:
    """Returns the operators that the PyTorch module of `task` runs, as a graph in which extents are
    expressions of the task's sizes. The kind of `task` must be "module". Raises NotUniform when the module
    runs different operators at different sizes, or contains a number that cannot be expressed by the sizes;
    UncoveredOperators when it uses something that cannot be captured."""
    file = ModuleFile(task.source, task.path)
    workloads = (*_workloads(task), *_telling_apart(task))
    traces: list[_Trace] = []
    for place, workload in enumerate(workloads):
        traces.append(_trace(file, task, workload, place))
        _check_uniform(task, traces[0], traces[-1])
    sizes = {size.name: tuple(w.sizes[size.name] for w in workloads) for size in task.signature.sizes}
    scalars = [item.name for item in task.signature.inputs if isinstance(item, Scalar)]
    numbers = {name: tuple(t.numbers[i] for t in traces) for i, name in enumerate(scalars)}
    reader = _Reader(Unifier(sizes, numbers), task.signature, [w.sizes for w in workloads])
    try:
        nodes = [reader.node(column) for column in zip(*(t.calls for t in traces), strict=True)]
    except NotUniform as error:
        raise NotUniform(f"{task.name}: {error} {INSTEAD}") from error
    outputs = [reader.reference(column[0]) for column in zip(*(t.outputs for t in traces), strict=True)]
    return Graph(
        signature=task.signature,
        nodes=needed(nodes, outputs),
        outputs=tuple(outputs),
        sizes=tuple(workload.sizes for workload in workloads),
    )


def _workloads(task: Task) -> Iterator[Workload]:
    """The task's workloads to trace. Held-out ones (which check other sizes than the timed, primary workload)
    with a size of 1 that is larger in the primary one get larger sizes instead: PyTorch runs other operators
    for the layout of such tensors."""
    free = [size.name for size in task.signature.sizes if size.kind == "free"]
    for workload in task.workloads:
        ones = [name for name in free if workload.sizes[name] == 1 < task.primary.sizes[name]]
        held_out = workload.module == "primary"
        yield SizeDraws(task).without_ones(workload) if ones and held_out else workload


def _telling_apart(task: Task) -> Iterator[Workload]:
    """Further workloads in which free sizes differ that are equal in all of the task's own, such as the
    height and width of images when all of them are square; none when no sizes are alike."""
    alike: dict[tuple[int, ...], list[str]] = {}
    for size in task.signature.sizes:
        if size.kind == "free":
            alike.setdefault(tuple(w.sizes[size.name] for w in task.workloads), []).append(size.name)
    for names in alike.values():
        workload = SizeDraws(task).apart(names) if len(names) > 1 else None
        if workload is not None:
            yield workload


def _check_uniform(task: Task, first: _Trace, trace: _Trace) -> None:
    if [call.target for call in trace.calls] == [call.target for call in first.calls]:
        return
    one, other = (Counter(call.operator for call in t.calls) for t in (first, trace))
    changing = sorted((one - other) | (other - one))
    which = f" ({', '.join(changing)})" if changing else ""
    loops = one.keys() == other.keys()
    how = "runs a loop whose length is a size" if loops else "uses other operators at other sizes"
    raise NotUniform(f"{task.name}: the module {how}{which}. {INSTEAD}")


def _trace(file: ModuleFile, task: Task, workload: Workload, place: int) -> _Trace:
    """The trace of the module in `file` at the sizes of one workload, the `place`th of the `task`: on the
    meta device, or on fake tensors if the module does not run there. Raises UncoveredOperators when it uses
    what cannot be captured."""
    try:
        return _traced(file, task, workload, place, meta=True)
    except UncoveredOperators:
        raise
    except Exception:
        return _traced(file, task, workload, place, meta=False)


def _traced(file: ModuleFile, task: Task, workload: Workload, place: int, *, meta: bool) -> _Trace:
    dtype = cast_of(task)
    constants = (find_small(file, dtype) or {}) if workload.module == "small" else {}
    with ExitStack() as stack:
        stack.enter_context(file.replaced(constants))
        stack.enter_context(torch.device("meta") if meta else FakeTensorMode(allow_non_fake_inputs=True))
        for context in (plain_attention(), quiet(), torch.no_grad()):
            stack.enter_context(context)
        module = convert(file.build(), dtype)
        shapes = iter(workload.shape(tensor) for tensor in task.signature.input_tensors)
        inputs: list[Any] = []
        for value in file.inputs():
            if isinstance(value, torch.Tensor):
                inputs.append(torch.zeros(next(shapes), dtype=cast(value, dtype).dtype))
            else:  # another value in each trace, so that it is recognized where it is used
                inputs.append(value + 0.5 * place if isinstance(value, float) else value)
        names = _names(task.signature, module, inputs)
        with kept_going("forward()"), DeviceRedirect(), PlainIndexing():
            traced = trace_module(module, inputs, names)
    numbers = [value for value in inputs if not isinstance(value, torch.Tensor)]
    return _Trace(traced.needed(), [original(value) for value in traced.outputs], numbers)


def _names(signature: Signature, module: torch.nn.Module, inputs: list[Any]) -> dict[str, torch.Tensor]:
    """The module's input tensors (among `inputs`), parameters and buffers by their names in the task's
    signature."""
    tensors = (value for value in inputs if isinstance(value, torch.Tensor))
    names = dict(zip((t.name for t in signature.input_tensors), tensors, strict=True))
    state = state_of(module).values()  # in the signature's order
    return names | dict(zip((t.name for t in signature.parameters), state, strict=True))


class _Reader:
    """Turns one operator call of the module, as seen in the traces of all workloads, into one node of the
    graph, with symbolic sizes in place of numbers."""

    def __init__(
        self,
        unifier: Unifier,
        signature: Signature,
        sizes: Sequence[Mapping[str, int]],
    ) -> None:
        self._unifier = unifier
        self._sizes = sizes
        self._shapes = {
            Reference(t.name): tuple(indices.variable(d) for d in t.dims) for t in signature.read_tensors
        }
        self._after_windows: set[Reference] = set()

    def node(self, column: tuple[TracedCall, ...]) -> Node:
        first = column[0]
        results = zip(*(call.results for call in column), strict=True)
        schema = first.target._schema.arguments
        given = [_given(call, schema) for call in column]
        arguments = {a.name: self._argument([found[a.name] for found in given]) for a in schema}
        operator = first.operator
        counts = self._counts(operator, given)
        likely = self._likely(arguments, counts)
        found = tuple(self._result(r, likely) for r in results if isinstance(r[0], torch.Tensor))
        own = [Reference(first.name, place) for place in range(len(found))]
        self._shapes |= {reference: result.shape for reference, result in zip(own, found, strict=True)}
        self._after_windows |= set(own) if likely else set()
        return Node(first.name, operator, arguments, found)

    def reference(self, value: TracedValue) -> Reference:
        source = original(value)
        if source.call.name.startswith(UNNAMED):
            raise UncoveredOperators(("a whole number among the module's buffers",))
        return Reference(source.call.name, source.result)

    def _counts(self, operator: str, given: Sequence[Mapping[str, Any]]) -> list[WindowCount]:
        """How many windows (of a convolution or pool) fit along each dimension of the operand of `operator`,
        from its arguments in each trace (`given`); empty when the operator has no windows or they differ
        between the traces."""
        counts = [window_counts(operator, found) for found in given]
        return counts[0] if all(other == counts[0] for other in counts) else []

    def _likely(self, arguments: Mapping[str, Any], counts: Sequence[WindowCount]) -> list[Index | None]:
        """The probable extents of an operator's result, None where unknown: those of its operand (from
        `arguments`) divided into windows as `counts` says or, without windows, the operand's own if it came
        from windows. Used to choose among expressions that happen to have the same values."""
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
        """An expression of the task's sizes that has these `values` in the traced workloads, in their order;
        `likely` where that has them."""
        if likely is not None and values == tuple(indices.evaluate(likely, sizes) for sizes in self._sizes):
            return self._unifier.whole(values, likely)
        return self._unifier.whole(values)

    def _argument(self, values: list[Any]) -> Any:
        first = values[0]
        if isinstance(first, TracedValue):
            return self.reference(first)
        if isinstance(first, list | tuple):
            if len({len(v) for v in values}) > 1:
                raise NotUniform("an operator takes a list of another length at other sizes.")
            return tuple(self._argument(list(column)) for column in zip(*values, strict=True))
        if isinstance(first, torch.dtype | torch.device):
            return dtype_name(first) if isinstance(first, torch.dtype) else None
        if isinstance(first, bool) or not isinstance(first, int | float):
            return first
        if all(isinstance(v, int) for v in values):
            return self._unifier.whole(tuple(values))
        return self._unifier.number(tuple(float(v) for v in values))


def _given(call: TracedCall, schema: Sequence[Any]) -> dict[str, Any]:
    """The arguments of an operator's call by the names in its `schema`, with defaults; a `size` that may hold
    -1 is replaced by the result's extents."""
    named = {a.name: call.kwargs.get(a.name, a.default_value) for a in schema[len(call.args) :]}
    given = {a.name: value for a, value in zip(schema, call.args, strict=False)} | named
    return given | {"size": list(call.results[0].shape)} if call.operator in RESIZED else given
