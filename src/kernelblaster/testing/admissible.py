"""Makes inputs that a correct kernel for a task must handle: sizes and arrangements of values, chosen
independently of those that the judge uses. They show whether a mutant (a kernel with a planted mistake) is
wrong.

For every input the module's float64 outputs are known, and how far one rounding of the inputs moves each
output element. CUDA-source tasks have no module: both are then None.

Inputs are small enough for the PTX machine (the emulator): all tensors together have at most 65,536 elements
(MOST). Therefore only one size at a time is made long (past a block of threads, or just above its extent in
the primary workload); the other free sizes are then 1 to 3.
"""

import contextlib
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch

from kernelblaster.errors import BadTask
from kernelblaster.judge.precision import ROUNDING
from kernelblaster.records import Scalar, Task, Workload
from kernelblaster.tasks.cuda_file import CudaFile
from kernelblaster.tasks.module_file import ModuleFile, call_module
from kernelblaster.tasks.module_state import cast, cast_of, convert, state_of
from kernelblaster.tasks.small import find_small
from kernelblaster.tasks.values import ValuePool, fill, perturb, pool_from_distribution, pool_of

MOST = 1 << 16
MOST_BYTES = 1 << 30  # of a primary workload, whose values are drawn once to know their kind
TINY, ODD, EVEN = (1, 2, 3), (5, 7, 31, 33, 67, 100, 129), (32, 64, 128)
LONG = ((257, 513, 1025), (701, 2051, 4099), (1024, 2048, 4096))  # past blocks, odd, and divisible
ABOVE = (1, 3, 29)  # how far above the primary extent
SHAKES = 4
LARGER = (8, 4, 2)  # times the small constants, where a construction fixes sizes
Number = float | int | bool


@dataclass(frozen=True)
class Input:
    """The arguments of one call, to try a kernel on, at the sizes of `workload`. `tensors` are inputs and
    parameters in the task's types, `scalars` the numbers among the arguments. `truth` are the float64 outputs
    for them. `noise` says by how much each element of `truth` changes if the inputs are rounded once. Both
    are None for a CUDA-source task. `title` describes sizes and values."""

    title: str
    workload: Workload
    tensors: tuple[torch.Tensor, ...]
    scalars: tuple[Number, ...]
    truth: tuple[torch.Tensor, ...] | None
    noise: tuple[torch.Tensor, ...] | None


class MutatedSource:
    """A task's module, built with certain `constants` in place of those of its file. Inputs are drawn from
    it, and it computes their float64 outputs. `pools` has for each input tensor the values that it is filled
    from. `parameters` and `scalars` are the module's own. `base` is the workload with the sizes that follow
    from `constants`. For a CUDA-source task there is no module: inputs are drawn as its file declares, and
    there are no outputs."""

    def __init__(self, task: Task, constants: Mapping[str, int]) -> None:
        """`constants` are the values, by name, that named numbers in the file of the task's module get, so
        that the module is built smaller or larger. Raises BadTask if they do not fit together."""
        self.task = task
        self._module: torch.nn.Module | None = None
        self.scalars: tuple[Number, ...] = ()
        self.parameters: list[torch.Tensor] = []
        if task.kind == "module":
            self._open_module(constants)
        else:
            self._open_kernel()

    def _open_module(self, constants: Mapping[str, int]) -> None:
        """Build the module with these constants and set its parameters, scalars, sizes and the pools of
        values that inputs are drawn from."""
        task, dtype = self.task, cast_of(self.task)
        file = ModuleFile(task.source, task.path)
        file.replace(constants)
        torch.manual_seed(0)
        module = convert(file.build(), dtype)
        values = [cast(value, dtype) for value in file.inputs()]
        state = state_of(module)
        self._names = list(state)
        self.parameters = [tensor.detach().clone() for tensor in state.values()]
        self._is_tensor = [isinstance(value, torch.Tensor) for value in values]
        self.scalars = tuple(value for value in values if not isinstance(value, torch.Tensor))
        tensors = [value for value in values if isinstance(value, torch.Tensor)]
        self._module = convert(module, torch.float64)
        self.base = self._sizes([*tensors, *self.parameters])
        pairs = zip(tensors, task.signature.input_tensors, strict=True)
        self.pools = [pool_of(value, tensor, self.base) for value, tensor in pairs]

    def _sizes(self, tensors: list[torch.Tensor]) -> Workload:
        """Which sizes these inputs and parameters have, as a workload; sizes that only outputs have are those
        of the task. Raises BadTask if two dimensions that share a size differ."""
        sizes = dict(self.task.workloads[0].sizes)
        known: dict[str, int] = {}
        for tensor, value in zip(self.task.signature.read_tensors, tensors, strict=True):
            for name, extent in zip(tensor.dims, value.shape, strict=True):
                if known.setdefault(name, extent) != extent:
                    raise BadTask(f"{self.task.name}: size {name} is both {known[name]} and {extent}.")
        return Workload(name="small", sizes=sizes | known, module="small")

    def _open_kernel(self) -> None:
        """Set `base` and `pools` for a CUDA-source task: its small (else primary) sizes, and values drawn
        from the distributions that its file declares."""
        self.base = self.task.small or self.task.primary
        parsed = CudaFile(self.task.source, self.task.path)
        self.pools = [
            pool_from_distribution(parsed.distributions[t.name], getattr(torch, t.dtype), torch.device("cpu"))
            for t in self.task.signature.read_tensors
        ]

    def outputs(self, tensors: list[torch.Tensor], scalars: tuple[Number, ...]) -> list[torch.Tensor] | None:
        """Returns the module's float64 outputs for `tensors` (inputs, then parameters, in float64) and
        `scalars`; None if there is no module or it refuses them."""
        if self._module is None:
            return None
        count = len(self.task.signature.input_tensors)
        state = self._module.state_dict(keep_vars=True)
        for name, value in zip(self._names, tensors[count:], strict=True):
            state[name].data.copy_(value)
        given, numbers = iter(tensors[:count]), iter(scalars)
        arguments = [next(given) if is_tensor else next(numbers) for is_tensor in self._is_tensor]
        default = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        try:
            return [out.clone() for out in call_module(self._module, arguments)]
        except (RuntimeError, IndexError, ValueError, BadTask):
            return None
        finally:
            torch.set_default_dtype(default)


def scalars_of(task: Task) -> dict[str, Number]:
    """Returns the numbers that a task's file passes to its module in addition to tensors, by the names of the
    arguments; empty if there are none."""
    names = [item.name for item in task.signature.inputs if isinstance(item, Scalar)]
    if not names:
        return {}
    return dict(zip(names, next(_sources(task)).scalars, strict=True))


def inputs_of(task: Task, seed: int) -> list[Input]:
    """Returns inputs to try a kernel on, those with the fewest elements first. At the task's small sizes, the
    values are arranged in every way of ARRANGEMENTS. At each other set of sizes there are three: values as
    the task draws them, one far larger value at the end of each row, and an arrangement drawn at random. The
    same seed gives the same inputs."""
    rng = random.Random(seed)
    found: list[Input] = []
    for source in _sources(task):
        for extents in _extents(task, source.base, rng):
            some = ["plain", "last far above", rng.choice(ARRANGEMENTS[1:])]
            for arrangement in some if found else ARRANGEMENTS:
                made = _input(source, extents, arrangement, rng)
                if made is not None:
                    found.append(made)
    return sorted(found, key=lambda one: sum(t.numel() for t in one.tensors))


def _sources(task: Task) -> Iterator[MutatedSource]:
    """Constructions of the task (its module built with certain constants) to draw inputs for: the small one;
    if the module's construction fixes sizes, also one several times larger, and the one in the file, where
    these are small enough for the emulator."""
    if task.kind == "cuda":
        yield MutatedSource(task, {})
        return
    file = ModuleFile(task.source, task.path)
    small = find_small(file, cast_of(task)) or {}
    yield MutatedSource(task, small)
    if all(size.kind != "fixed" for size in task.signature.sizes):
        return
    for factor in LARGER:
        with contextlib.suppress(BadTask):
            source = MutatedSource(task, {name: factor * value for name, value in small.items()})
            if _elements(task, source.base) <= MOST:
                yield source
                break
    if task.primary.total_bytes(task.signature) <= MOST_BYTES:
        source = MutatedSource(task, {})
        if _elements(task, source.base.model_copy(update={"sizes": _least(task)})) <= MOST:
            yield source


def _least(task: Task) -> dict[str, int]:
    """The primary workload's sizes by name, with 1 for every free size (one that may vary): the smallest at
    which the module can be run as the file builds it."""
    kinds = {size.name: size.kind for size in task.signature.sizes}
    return {name: 1 if kinds[name] == "free" else extent for name, extent in task.primary.sizes.items()}


def _extents(task: Task, base: Workload, rng: random.Random) -> Iterator[dict[str, int]]:
    """Sets of sizes by name to try: those of `base`, then with the free ones changed to tiny, odd, even and
    long values; only those with at most MOST elements in all tensors."""
    free = [size.name for size in task.signature.sizes if size.kind == "free"]

    def fits(changed: Mapping[str, int]) -> bool:
        return _elements(task, base.model_copy(update={"sizes": base.sizes | dict(changed)})) <= MOST

    tried: list[dict[str, int]] = [{}]
    for group in (TINY, ODD, ODD, EVEN):
        tried.append({name: rng.choice(group) for name in free})
    for name in free:
        others = {other: rng.choice(TINY) for other in free}
        primary = task.primary.sizes[name]
        near = ([primary + more for more in ABOVE], [primary // 2 + more for more in ABOVE])
        for extents in (*LONG, *near):
            possible = [others | {name: extent} for extent in extents if fits(others | {name: extent})]
            tried += [rng.choice(possible)] if possible else []
    yield from (base.sizes | changed for changed in tried if fits(changed))


def _elements(task: Task, workload: Workload) -> int:
    """How many elements all tensors of a task have together at this workload."""
    return sum(workload.elements(tensor) for tensor in task.signature.tensors)


def _input(
    source: MutatedSource, extents: dict[str, int], arrangement: str, rng: random.Random
) -> Input | None:
    """Makes the input with the sizes `extents` and this arrangement of values from `source`; None if the
    module refuses the sizes. Parameters (in most inputs) and scalars are changed at random."""
    signature = source.task.signature
    workload = source.base.model_copy(update={"sizes": extents})
    moved = rng.random() < 0.7
    tensors: list[torch.Tensor] = []
    for position, tensor in enumerate(signature.read_tensors):
        value = torch.empty(workload.shape(tensor), dtype=getattr(torch, tensor.dtype))
        inputs = len(signature.input_tensors)
        if position < len(source.pools):
            _draw(value, source.pools[position], arrangement, workload, rng)
        elif moved:
            perturb(value, source.parameters[position - inputs], rng.getrandbits(40))
        else:
            value.copy_(source.parameters[position - inputs])
        tensors.append(value)
    scalars = tuple(_moved_scalar(value, rng) for value in source.scalars)
    wide = [t.double() if t.is_floating_point() else t for t in tensors]
    truth = source.outputs(wide, scalars)
    if truth is None:  # a whole number may say which axis
        scalars = source.scalars
        truth = source.outputs(wide, scalars)
    if truth is None and source.task.kind == "module":
        return None
    if truth is not None:
        for tensor, output in zip(signature.outputs, truth, strict=True):
            extents = extents | dict(zip(tensor.dims, output.shape, strict=True))
        workload = workload.model_copy(update={"sizes": extents})
    noise = _noise(source, wide, scalars, truth, rng) if truth is not None else None
    sizes = ", ".join(f"{name}={extent}" for name, extent in extents.items())
    title = f"{sizes}, {arrangement}" + (", parameters moved" if moved and source.parameters else "")
    if scalars != source.scalars:
        title += f", scalars {', '.join(f'{value:g}' for value in scalars)}"
    return Input(title, workload, tuple(tensors), scalars, tuple(truth) if truth else None, noise)


def _noise(
    source: MutatedSource,
    wide: list[torch.Tensor],
    scalars: tuple[Number, ...],
    truth: list[torch.Tensor],
    rng: random.Random,
) -> tuple[torch.Tensor, ...]:
    """For each output, how far each element moves by rounding: the largest change over SHAKES runs with
    inputs and parameters perturbed at random by up to one rounding. `wide` are these in float64, `truth` the
    outputs for them."""
    unit = ROUNDING[getattr(torch, source.task.dtype)]
    most = [torch.zeros(t.shape, dtype=torch.float64) for t in truth]
    for _ in range(SHAKES):
        generator = torch.Generator().manual_seed(rng.getrandbits(40))
        shaken = [
            t * (1 + unit * (2 * torch.rand(t.shape, generator=generator, dtype=torch.float64) - 1))
            if t.is_floating_point()
            else t
            for t in wide
        ]
        for largest, moved, right in zip(most, source.outputs(shaken, scalars) or [], truth, strict=False):
            if right.is_floating_point():
                torch.maximum(largest, (moved - right).abs().nan_to_num(0.0), out=largest)
    return tuple(most)


# --- values -----------------------------------------------------------------------------------------

_FACTORS = {"large": 30.0, "tiny": 1e-4, "vanishing": 1e-14, "zeros": 0.0}
_SHIFTS = {"shifted": 32.0, "far negative": -200.0}  # in standard deviations, as the last of each row is:
_LAST = {"last largest": 8.0, "last far above": 200.0}
_ORDERS = ("negative", "positive", "zero rows", "constant rows", "rising", "falling", "ties")
ARRANGEMENTS = ("plain", *_FACTORS, *_SHIFTS, *_LAST, *_ORDERS)


def _draw(
    value: torch.Tensor, pool: ValuePool, arrangement: str, workload: Workload, rng: random.Random
) -> None:
    """Fill the tensor `value` with values of the pool, then change them as `arrangement` says. If the pool's
    values have one sign, they are only reordered, since others may be outside what the task accepts;
    integers, scalars and triangular tensors are not changed."""
    fill(value, pool, "written", workload, rng.getrandbits(40))
    if not value.is_floating_point() or value.dim() == 0 or pool.triangle:
        return
    wide = value.double()
    both_signs = bool(pool.values[0] < 0 < pool.values[-1])
    new = _one_signed(wide, arrangement) if not both_signs else _rearranged(wide, arrangement, pool)
    value.copy_(new)


def _one_signed(wide: torch.Tensor, arrangement: str) -> torch.Tensor:
    """The values `wide` reordered or repeated within rows as `arrangement` says; unchanged if it would need
    values that are not there."""
    match arrangement:
        case "constant rows":
            return wide[..., :1].expand_as(wide)
        case "rising":
            return wide.sort(-1).values
        case "falling":
            return wide.sort(-1, descending=True).values
        case "ties":
            return wide.reshape(-1)[torch.arange(wide.numel()) % 3 % wide.numel()].view_as(wide)
    return wide


def _rearranged(wide: torch.Tensor, arrangement: str, pool: ValuePool) -> torch.Tensor:
    """The values `wide` scaled, shifted or rearranged as `arrangement` says; distances are in standard
    deviations of the pool."""
    spread = float(pool.values.double().std())
    if arrangement in _FACTORS:
        return wide * _FACTORS[arrangement]
    if arrangement in _SHIFTS:
        return wide + _SHIFTS[arrangement] * spread
    new = wide.clone()
    if arrangement in _LAST:
        new[..., -1] = _LAST[arrangement] * spread
    elif arrangement == "negative":
        new = -wide.abs() - spread
    elif arrangement == "positive":
        new = wide.abs()
    elif arrangement == "zero rows":
        new.view(-1, wide.shape[-1])[::2] = 0
    elif arrangement == "ties":
        new = (wide / spread).round() * spread
    else:
        new = _one_signed(wide, arrangement)
    return new


def _moved_scalar(value: Number, rng: random.Random) -> Number:
    """A value to pass for a scalar argument instead of `value`: a little larger, or scaled by a factor that
    `rng` draws. It may equal `value`; booleans always do."""
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value + rng.choice((0, 1, 2))
    return value * rng.choice((1.0, 1.7, 0.3, 100.0)) if value else rng.choice((0.0, 0.5))
