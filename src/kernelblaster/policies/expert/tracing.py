"""Traces a module: records which core (aten) operators it runs, and which of them read which results. It runs
on tensors without content.

PyTorch's own tracers record the same, but take milliseconds for each operator. Here an operator costs only a
look-up if it was called before with operands of the same shapes and types (as in the next of several equal
layers).
"""

import builtins
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from types import FunctionType
from typing import Any

import torch
from torch._decomp import core_aten_decompositions, decomposition_table
from torch.func import functional_call, functionalize
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from kernelblaster.policies.expert.graph import UncoveredOperators
from kernelblaster.tasks.remembered import RememberedResults

COPIES = ("clone.default", "_to_copy.default", "alias.default", "lift_fresh_copy.default", "detach.default")
UNNAMED = "unnamed "
KEPT = (
    "aten.native_batch_norm.default",
    "aten.roll.default",
    "aten.upsample_nearest1d.default",
    "aten.upsample_nearest2d.default",
    "aten.upsample_nearest3d.default",
)
# Operators that PyTorch's list of core decompositions leaves as they are, and that become gathers by computed
# indices here.
FURTHER = ("upsample_bilinear2d", "upsample_bicubic2d", "upsample_trilinear3d")
RECURRENCES = ("gru", "lstm", "rnn_tanh", "rnn_relu")
MOST_NUMBERS = 64  # of a tensor that forward() makes of numbers


@dataclass(frozen=True, eq=False)
class TracedCall:
    """One recorded call of the operator `target`. Tensors among its arguments (`args` and `kwargs`) are
    TracedValues; `results` are the tensors that it returned, without content. `name` is unique in the trace.
    An input or parameter of the module is recorded as a call too, with `target` None and itself as the
    result."""

    name: str
    target: Any
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    results: tuple[Any, ...]

    @property
    def operator(self) -> str:
        """The name of the operator with its overload, such as "mul.Tensor"."""
        return str(self.target).removeprefix("aten.")


@dataclass(frozen=True)
class TracedValue:
    """A tensor in a trace: result number `result` of the operator call `call`."""

    call: TracedCall
    result: int = 0

    @property
    def tensor(self) -> torch.Tensor:
        found = self.call.results[self.result]
        assert isinstance(found, torch.Tensor)
        return found


@dataclass
class TracedModule:
    """The operator calls of one run of a module, in order, and its `outputs`, the values that the module
    returned."""

    calls: list[TracedCall] = field(default_factory=list)
    outputs: list[TracedValue] = field(default_factory=list)

    def needed(self) -> list[TracedCall]:
        """Returns the operator calls on which some output depends, in order. Calls that only copy a tensor
        are left out."""
        wanted = {original(value).call for value in self.outputs}
        kept = []
        for call in reversed(self.calls):
            if call in wanted and call.target is not None:
                wanted |= {original(value).call for value in operands(call)}
                kept.append(call)
        return kept[::-1]


def operands(call: TracedCall) -> list[TracedValue]:
    """Returns the tensors among the arguments of an operator call, in order."""
    leaves = pytree.tree_leaves((call.args, dict(call.kwargs)), is_leaf=lambda v: isinstance(v, TracedValue))
    return [leaf for leaf in leaves if isinstance(leaf, TracedValue)]


def original(value: TracedValue) -> TracedValue:
    """Returns the value of which `value` is a copy, through any number of copies; `value` itself if it is no
    copy, or a copy with another dtype. Copies are skipped because they change at most the layout in memory,
    and because PyTorch makes them at some sizes only."""
    while value.call.operator in COPIES:
        source = operands(value.call)[0]
        if source.tensor.dtype != value.tensor.dtype:
            break
        value = source
    return value


def trace_module(
    module: torch.nn.Module, inputs: Sequence[Any], names: Mapping[str, torch.Tensor]
) -> TracedModule:
    """Records the core (aten) operators that a module runs on these inputs. An in-place write is recorded as
    an operator that returns a new tensor. The inputs and the module's tensors are without content: fake
    tensors, or on the meta device. `names` has the inputs, parameters and buffers by name; other tensors of
    the module (such as the count of batches in a normalization) get names that begin with UNNAMED. LSTM, GRU
    and RNN of PyTorch are recorded as one operator each. Raises UncoveredOperators for packed sequences, for
    in-place writes that cannot be replaced, and if a tensor is used that is neither the module's nor made by
    an operator."""
    try:
        return _traced(module, inputs, names, functional=False)
    except _Aliased:
        pass
    try:
        return _traced(module, inputs, names, functional=True)
    except _Aliased as error:
        raise UncoveredOperators((f"{error}, which writes a tensor in place",)) from error


def _traced(
    module: torch.nn.Module, inputs: Sequence[Any], names: Mapping[str, torch.Tensor], *, functional: bool
) -> TracedModule:
    """One attempt at `trace_module`, with its parameters. With `functional`, PyTorch turns in-place writes
    into operators that return new tensors; without it, the recorder does so, and raises _Aliased if the
    written tensor has views."""
    state: dict[str, torch.Tensor] = {**dict(module.named_parameters(remove_duplicate=False))}
    state |= dict(module.named_buffers(remove_duplicate=False))
    others = {f"{UNNAMED}{place}": tensor for place, tensor in enumerate(state.values())}
    recorder = _Recorder({**names, **others}, remember=all(tensor.is_meta for tensor in names.values()))

    def call(state: dict[str, torch.Tensor], inputs: Sequence[Any]) -> Any:
        return functional_call(module, state, tuple(inputs))

    with torch.no_grad(), _PlainNumbers(recorder), recorder:
        results = (functionalize(call) if functional else call)(state, list(inputs))
    outputs = [recorder.value(leaf) for leaf in pytree.tree_leaves(results) if leaf is not None]
    return TracedModule(recorder.calls, outputs)


@cache
def _decompositions() -> dict[Any, Callable[..., Any]]:
    """PyTorch's decompositions into core operators, by operator; nearest-neighbour upsampling and `roll` stay
    one operator (KEPT), instead of becoming a gather by computed indices."""
    known = core_aten_decompositions().items()  # type: ignore[no-untyped-call]
    aten = torch.ops.aten
    nearest = (aten.upsample_nearest1d, aten.upsample_nearest2d, aten.upsample_nearest3d)
    further = {getattr(aten, name).default for name in FURTHER}
    return {
        **{target: rule for target, rule in known if str(target) not in KEPT},
        **{target: rule for target, rule in decomposition_table.items() if target in further},
        **{packet.vec: partial(_upsampled, packet.default) for packet in nearest},
    }


def _upsampled(
    operator: Any, x: torch.Tensor, output_size: Sequence[int] | None, scale_factors: Sequence[float] | None
) -> Any:
    """Calls `operator`, nearest-neighbour upsampling, on x: to the extents `output_size` of its dimensions
    behind batch and channel or, if that is not given, by the factors `scale_factors`."""
    size = output_size or [int(n * f) for n, f in zip(x.shape[2:], scale_factors or (), strict=True)]
    return operator(x, size, *(scale_factors or ()))


def is_decomposed(target: Any) -> bool:
    """Whether the operator `target` is recorded as the operators that PyTorch makes it of."""
    return _rule(target) is not None


@cache
def _rule(target: Any) -> Callable[..., Any] | None:
    """The function that decomposes the operator `target` into core (aten) operators; None if it is one
    itself."""
    rule = _decompositions().get(target)
    if rule is None and str(target) not in KEPT and target._can_decompose():
        return target.decompose  # type: ignore[no-any-return]
    return rule


class _Aliased(Exception):
    """Raised if an operator writes a tensor in place that is a view or has views; the message is the
    operator's name."""


class _Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Records the core operators that PyTorch runs while it is active; an in-place write is recorded as an
    operator that returns a new value. `names` has the module's tensors by name. With `remember`, an operator
    is not run again on operands like earlier ones: results of the same shapes are made instead."""

    def __init__(self, names: Mapping[str, torch.Tensor], *, remember: bool) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls: list[TracedCall] = []
        self._values: dict[int, TracedValue] = {}  # by tensor; calls keep their tensors alive
        self._used: Counter[str] = Counter()
        self._viewed: set[int] = set()  # tensors that are views, or of which there are some
        self._results = RememberedResults() if remember else None
        for name, tensor in names.items():
            if id(tensor) not in self._values:
                self._values[id(tensor)] = TracedValue(TracedCall(name, None, (), {}, (tensor,)))

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        kwargs = kwargs or {}
        if func.namespace == "prim":  # asks for a tensor's device
            return func(*args, **kwargs)
        rule = _rule(func)
        if rule is not None:
            with self:
                found = rule(*args, **kwargs)
            if found is not NotImplemented:
                if func.overloadpacket.__name__.startswith("unsafe_"):  # parts that nobody knows to be views
                    self._viewed -= {id(part) for part in found}
                return found
        if func._schema.is_mutable:
            return self._write(func, args, kwargs)
        found = self._results.of(func, args, kwargs) if self._results else func(*args, **kwargs)
        results = tuple(found) if isinstance(found, tuple | list) else (found,)
        if not isinstance(results[0], torch.Tensor) or id(results[0]) in self._values:
            return found  # a number, or an operand itself
        self.record(func, args, kwargs, results)
        if func.is_view:
            self._viewed |= {id(args[0]), *map(id, results)}
        return found

    def record(self, func: Any, args: Any, kwargs: Mapping[str, Any], results: tuple[Any, ...]) -> None:
        """Records a call of the operator `func` that gave these results."""
        traced = {name: self._traced(value) for name, value in kwargs.items()}
        call = TracedCall(self._name(func), func, self._traced(args), traced, results)
        self.calls.append(call)
        for place, result in enumerate(results):
            if isinstance(result, torch.Tensor):
                self._values[id(result)] = TracedValue(call, place)

    def _write(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Records the operator `func`, called with `args` and `kwargs`, which writes its first operand in
        place (`relu_`): that tensor stands for a new value from then on. Raises _Aliased if other tensors
        would change with it, or if it is another kind of write."""
        written = [argument.name for argument in func._schema.arguments if argument.is_write]
        name = func.overloadpacket.__name__
        packet = getattr(torch.ops.aten, name.removesuffix("_"), None)
        functional = getattr(packet, func._overloadname, None)
        first = func._schema.arguments[0].name
        if written != [first] or not name.endswith("_") or functional is None or id(args[0]) in self._viewed:
            raise _Aliased(str(func).removeprefix("aten."))
        with self:
            found = functional(*args, **kwargs)
        if (found.shape, found.dtype) != (args[0].shape, args[0].dtype):
            raise _Aliased(str(func).removeprefix("aten."))
        self._values[id(args[0])] = self.value(found)
        return args[0]

    def value(self, tensor: Any) -> TracedValue:
        """The value of the trace that a tensor is: which call made it. Raises UncoveredOperators for a tensor
        that no recorded operator made."""
        found = self._values.get(id(tensor))
        if found is None:
            raise UncoveredOperators(("a constant tensor of the module (register it as a buffer)",))
        return found

    def _traced(self, value: Any) -> Any:
        """An operator's argument with every tensor in it, also within lists, replaced by its traced value."""
        if isinstance(value, torch.Tensor):
            return self.value(value)
        if isinstance(value, list | tuple):
            return type(value)(self._traced(part) for part in value)
        return value

    def _name(self, func: Any) -> str:
        """A unique name for a call of the operator `func`: the operator's own, with a number from the second
        call on, or if Python has a builtin of that name."""
        base = func.overloadpacket.__name__
        count = self._used[base] + (base in vars(builtins))
        self._used[base] += 1
        return f"{base}_{count}" if count else base


class _PlainNumbers(TorchFunctionMode):
    """A context in which tensors that forward() makes of numbers (`torch.tensor(2.0)`) are made by traced
    operators, so that their values are known, and in which PyTorch's own recurrences (LSTM, GRU, RNN) are
    recorded as one operator each. Raises UncoveredOperators for those of packed sequences."""

    def __init__(self, recorder: _Recorder) -> None:
        super().__init__()
        self._recorder = recorder

    def __torch_function__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if isinstance(func, torch._ops.OpOverload):  # as torch.export writes it: torch.ops.aten.lstm.input
            name = name.removesuffix(".input")
        if name in RECURRENCES and not isinstance(func, FunctionType):
            return self._recurrence(name, args)
        if name in ("tensor", "as_tensor") and len(args) == 1 and _is_number(args[0]):
            dtype = kwargs.get("dtype") or _type_of(pytree.tree_leaves(args[0]))
            return _numbers(args[0], {"dtype": dtype, "device": kwargs.get("device")})
        return func(*args, **kwargs)

    def _recurrence(self, name: str, args: Sequence[Any]) -> tuple[torch.Tensor, ...]:
        """Records the operator `name` (one of RECURRENCES), and returns its results: the output of all steps,
        and the last states."""
        states = args[1] if name == "lstm" else (args[1],)
        if isinstance(args[1], torch.Tensor) == (name == "lstm") or isinstance(args[2], torch.Tensor):
            raise UncoveredOperators((f"{name}.data",))
        given, bidirectional = args[0], args[7]
        features = states[0].shape[-1] * (2 if bidirectional else 1)
        results = (given.new_empty((*given.shape[:-1], features)), *map(torch.empty_like, states))
        self._recorder.record(getattr(torch.ops.aten, name).input, tuple(args), {}, results)
        return results


def _is_number(value: Any) -> bool:
    """Whether a value is a number, or a nested list with at most MOST_NUMBERS numbers and nothing else."""
    leaves = pytree.tree_leaves(value)
    plain = all(isinstance(leaf, bool | int | float) for leaf in leaves)
    nested = isinstance(value, list | tuple | bool | int | float)
    return plain and nested and 0 < len(leaves) <= MOST_NUMBERS


def _type_of(numbers: Sequence[Any]) -> torch.dtype:
    """The dtype that PyTorch gives a tensor made of these Python numbers, as `torch.tensor` would."""
    if any(isinstance(number, float) for number in numbers):
        return torch.get_default_dtype()
    return torch.bool if all(isinstance(number, bool) for number in numbers) else torch.int64


def _numbers(value: Any, options: Mapping[str, Any]) -> torch.Tensor:
    """A tensor made of `value`, a number or nested lists of numbers, by operators that a trace records (full,
    stack). `options` are its dtype and device."""
    if isinstance(value, list | tuple):
        return torch.stack([_numbers(part, options) for part in value])
    return torch.full((), value, **options)
