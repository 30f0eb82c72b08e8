"""Turns recurrent layers (LSTM, GRU, RNN) into kernels (lowers them), two for each layer and direction: a
matrix product of the inputs of all time steps with their weights, and a kernel that is launched once for each
time step."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kernelblaster.policies.expert import index as indices
from kernelblaster.policies.expert.axis import Axis
from kernelblaster.policies.expert.builder import Builder, Position, Value, lowers
from kernelblaster.policies.expert.combines.arithmetic import SUM
from kernelblaster.policies.expert.expression import Counted, Expression, Load, Reduced, operation, real
from kernelblaster.policies.expert.graph import Node, UncoveredOperators
from kernelblaster.policies.expert.index import ONE, ZERO, Index, number
from kernelblaster.policies.expert.kernel import Kernel, Stage, Store
from kernelblaster.policies.expert.operators.pointwise import relu, sigmoid
from kernelblaster.policies.expert.plan import Buffer
from kernelblaster.policies.expert.schedules.products import ThreadPerResult
from kernelblaster.policies.expert.schedules.recurrences import StepPerLaunch
from kernelblaster.records.signature import Dtype

Gates = tuple[Expression, ...]  # one for each gate of a cell


@dataclass(frozen=True)
class RecurrentCell:
    """A kind of recurrent cell; `gates` is the number of its gates. `step` takes four arguments: what the
    inputs contribute to each gate, what the previous state contributes to each gate (bias included), the
    previous state, and the previous cell state (None if the kind has none). All are expressions. It returns
    (the new state, the new cell state or None)."""

    gates: int
    step: Callable[[Gates, Gates, Expression, Expression | None], tuple[Expression, Expression | None]]


def _tanh(x: Expression) -> Expression:
    return operation("tanh", x)


def _lstm(
    given: Gates, before: Gates, state: Expression, cell: Expression | None
) -> tuple[Expression, Expression | None]:
    assert cell is not None
    enter, forget, new, out = (operation("add", x, h) for x, h in zip(given, before, strict=True))
    kept = operation("mul", sigmoid(forget), cell)
    after = operation("add", kept, operation("mul", sigmoid(enter), _tanh(new)))
    return operation("mul", sigmoid(out), _tanh(after)), after


def _gru(
    given: Gates, before: Gates, state: Expression, cell: Expression | None
) -> tuple[Expression, Expression | None]:
    reset, update = (sigmoid(operation("add", given[place], before[place])) for place in range(2))
    new = _tanh(operation("add", given[2], operation("mul", reset, before[2])))
    rest = operation("mul", operation("sub", real(1), update), new)
    return operation("add", rest, operation("mul", update, state)), None


def _rnn(activation: Callable[[Expression], Expression]) -> RecurrentCell:
    def step(
        given: Gates, before: Gates, state: Expression, cell: Expression | None
    ) -> tuple[Expression, Expression | None]:
        return activation(operation("add", given[0], before[0])), None

    return RecurrentCell(1, step)


CELLS = {
    "lstm.input": RecurrentCell(4, _lstm),
    "gru.input": RecurrentCell(3, _gru),
    "rnn_tanh.input": _rnn(_tanh),
    "rnn_relu.input": _rnn(relu),
}


@lowers(*CELLS)
def recurrence(builder: Builder, node: Node) -> None:
    layers = Layers(builder, node)
    value = layers.time_first(builder.value(node.arguments["input"]))
    for layer in range(layers.count):
        value = layers.add(layer, value)
    layers.define_last()


class Layers:
    """Adds the kernels of the recurrent module that `node` calls (LSTM, GRU or RNN) to `builder`, one layer
    after another. Positions in here are always (time, batch, feature), whatever order of dimensions the
    module uses."""

    def __init__(self, builder: Builder, node: Node) -> None:
        given = node.arguments
        self.builder, self.node, self.cell = builder, node, CELLS[node.operator]
        self.stem = node.name.strip("_")
        self.count: int = given["num_layers"].value
        self.directions = 2 if given["bidirectional"] else 1
        self.biased: bool = given["has_biases"]
        self.dtype: Dtype = node.results[0].dtype
        states = given["hx"] if isinstance(given["hx"], tuple) else (given["hx"],)
        self.first = [builder.value(state) for state in states]
        self.hidden = self.first[0].shape[-1]
        each = 4 if self.biased else 2
        if len(given["params"]) != each * self.count * self.directions:
            raise UncoveredOperators((f"{node.operator} with projections",))
        if given["train"] is True and self.count > 1 and _is_positive(given["dropout"]):
            raise UncoveredOperators((f"{node.operator} with dropout",))
        weights = [builder.value(weight) for weight in given["params"]]
        self.weights = [weights[place : place + each] for place in range(0, len(weights), each)]
        self.states: list[str] = []  # buffers of the layers' outputs
        self.cells: list[str] = []

    def time_first(self, value: Value) -> Value:
        """Returns `value`, a tensor in the order of dimensions that the module uses, with its dimensions
        permuted to (time, batch, feature)."""
        if not self.node.arguments["batch_first"]:
            return value
        batch, time, *rest = value.shape
        return Value((time, batch, *rest), value.dtype, lambda at: value.at((at[1], at[0], *at[2:])))

    def add(self, layer: int, value: Value) -> Value:
        """Adds the kernels of layer number `layer`, for all its directions. `value` is the layer's input, the
        output of the layer before. Returns the layer's output."""
        time, batch, _ = value.shape
        last = layer == self.count - 1
        shape = (time, batch, indices.multiply(self.hidden, number(self.directions)))
        name = self.builder.buffer(self.node) if last else self._scratch(f"layer{layer}", shape)
        self.states.append(name)
        swapped = last and self.node.arguments["batch_first"]

        def there(at: Position) -> Position:
            return (at[1], at[0], *at[2:]) if swapped else at

        output = Value(shape, self.dtype, lambda at: Load(name, there(at), "real"))
        for direction in range(self.directions):
            self._direction(layer, direction, value, output, there)
        return output

    def _scratch(self, what: str, shape: tuple[Index, ...]) -> str:
        name = f"{self.stem}_{what}"
        self.builder.buffers[name] = Buffer(name, shape, self.dtype, scratch=True)
        return name

    def _direction(
        self, layer: int, direction: int, value: Value, output: Value, there: Callable[[Position], Position]
    ) -> None:
        place = layer * self.directions + direction
        given = self._inputs(place, value)
        time, batch, _ = value.shape
        hidden, gates = self.hidden, self.cell.gates
        steps = Axis(f"{self.stem}_step", time)
        step = indices.variable(steps.name)
        now, before = step, indices.subtract(step, ONE)
        if direction:
            now = indices.subtract(indices.subtract(time, ONE), step)
            before = indices.subtract(time, step)
        axes, k = (Axis("i0", batch), Axis("i1", hidden)), Axis("k", hidden)
        row, column = (axis.index for axis in axes)
        offset = indices.multiply(hidden, number(direction))
        start = operation("eq", Counted(step), Counted(ZERO), kind="truth")

        def state(feature: Index) -> Expression:
            earlier = output.at((before, row, indices.add(offset, feature)))
            return operation("where", start, self.first[0].at((number(place), row, feature)), earlier)

        def of_gate(gate: int) -> Index:
            return indices.add(indices.multiply(hidden, number(gate)), column)

        weight = self.weights[place][1]
        stages, sums = [], []
        for gate in range(gates):
            body = operation("mul", state(k.index), weight.at((of_gate(gate), k.index)))
            stages.append(Stage(f"gate{gate}", SUM, body, (k,)))
            total: Expression = Reduced(f"gate{gate}", "real")
            if self.biased:
                total = operation("add", total, self.weights[place][3].at((of_gate(gate),)))
            sums.append(total)
        inputs = tuple(given.at((now, row, of_gate(gate))) for gate in range(gates))
        cell = None
        if len(self.first) > 1:
            self.cells.append(self._scratch(f"cell{place}", (batch, hidden)))
            kept = Load(self.cells[-1], (row, column), "real")
            cell = operation("where", start, self.first[1].at((number(place), row, column)), kept)
        new, after = self.cell.step(inputs, tuple(sums), state(column), cell)
        stores = [Store(self.states[-1], there((now, row, indices.add(offset, column))), new)]
        if after is not None:
            stores.append(Store(self.cells[-1], (row, column), after))
        name = f"{self.stem}_{layer}{'_backward' if direction else ''}_kernel"
        kernel = Kernel(name, axes, tuple(stores), tuple(stages), StepPerLaunch(), steps=steps)
        self.builder.kernels.append(kernel)

    def _inputs(self, place: int, value: Value) -> Value:
        """Adds the matrix product of a layer's inputs, of all time steps, with its first weights."""
        weight = self.weights[place][0]
        time, batch, features = value.shape
        shape = (time, batch, indices.multiply(self.hidden, number(self.cell.gates)))
        name = self._scratch(f"inputs{place}", shape)
        axes, k = tuple(Axis(f"i{d}", extent) for d, extent in enumerate(shape)), Axis("k", features)
        position = tuple(axis.index for axis in axes)
        body = operation("mul", value.at((*position[:2], k.index)), weight.at((position[2], k.index)))
        total: Expression = Reduced("total", "real")
        if self.biased:
            total = operation("add", total, self.weights[place][2].at((position[2],)))
        stage = Stage("total", SUM, body, (k,))
        store = Store(name, position, total)
        kernel = Kernel(f"{name}_kernel", axes, (store,), (stage,), ThreadPerResult())
        self.builder.kernels.append(kernel)
        return self.builder.loaded(name)

    def define_last(self) -> None:
        """Defines the module's other results, the states after the last time step, as views of what the
        layers' kernels have stored."""
        swapped = self.node.arguments["batch_first"]
        shape = self.node.results[1].shape

        def last_state(at: Position) -> Expression:
            places = range(self.count * self.directions)
            return self._chosen(at[0], [self._end(place, at, swapped) for place in places])

        def last_cell(at: Position) -> Expression:
            return self._chosen(at[0], [Load(name, tuple(at[1:]), "real") for name in self.cells])

        self.builder.define(self.node, Value(shape, self.dtype, last_state), 1)
        if self.cells:
            self.builder.define(self.node, Value(shape, self.dtype, last_cell), 2)

    def _end(self, place: int, at: Position, swapped: bool) -> Expression:
        layer, direction = divmod(place, self.directions)
        name = self.states[layer]
        shape = self.builder.buffers[name].shape
        turned = swapped and layer == self.count - 1
        time = ZERO if direction else indices.subtract(shape[1 if turned else 0], ONE)
        feature = indices.add(indices.multiply(self.hidden, number(direction)), at[2])
        position = (at[1], time, feature) if turned else (time, at[1], feature)
        return Load(name, position, "real")

    def _chosen(self, place: Index, values: list[Expression]) -> Expression:
        """The value whose number among `values` is `place`."""
        *others, found = values
        for n, value in reversed(list(enumerate(others))):
            test = operation("eq", Counted(place), Counted(number(n)), kind="truth")
            found = operation("where", test, value, found)
        return found


def _is_positive(value: Any) -> bool:
    return bool(getattr(value, "value", value))
