"""Inputs that a correct kernel must handle: sizes and arrangements of values, chosen apart from the judge's.

For every input the module's float64 outputs are known, and how far one rounding of the inputs moves each of
their elements. CUDA-source tasks have no module: there both are None.

Kept small, so that the PTX machine can run them: at most MOST elements in all tensors together. One extent
at a time is longer than a block or above the primary one.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch

from kernelblaster.errors import BadTask
from kernelblaster.judge.precision import ROUNDING
from kernelblaster.records import Scalar, Task, Workload
from kernelblaster.tasks.cuda_file import CudaFile
from kernelblaster.tasks.derive import cast, convert, find_small, parameter_names
from kernelblaster.tasks.module_file import ModuleFile, call_module
from kernelblaster.tasks.values import Pool, fill, perturb, pool_from_distribution, pool_of

MOST = 1 << 16
MOST_BYTES = 1 << 30  # of a primary workload, whose values are drawn once to know their kind
TINY, ODD, EVEN, LONG = (1, 2, 3), (5, 7, 31, 33, 67, 100, 129), (4, 32, 64, 128), (257, 1025, 2051, 4099)
ABOVE = (1, 3, 29)  # how far above the primary extent
SHAKES = 4
Construction = Literal["small", "primary"]
Number = float | int | bool


@dataclass(frozen=True)
class Input:
    """One call: `tensors` are inputs and parameters in the task's types. `truth` are the float64 outputs, and
    `noise` how far each of their elements moves by one rounding of the inputs."""

    title: str
    workload: Workload
    tensors: tuple[torch.Tensor, ...]
    scalars: tuple[Number, ...]
    truth: tuple[torch.Tensor, ...] | None
    noise: tuple[torch.Tensor, ...] | None


class Source:
    """Where values of one construction of a task come from: pools, the parameters' own values, scalars; and
    the module in float64, where there is one."""

    def __init__(self, task: Task, construction: Construction) -> None:
        self.task = task
        self.base = task.workload(construction)
        self._module: torch.nn.Module | None = None
        self.scalars: tuple[Number, ...] = ()
        self.parameters: list[torch.Tensor] = []
        if task.kind == "module":
            self._open_module(construction)
        else:
            self._open_kernel()

    def _open_module(self, construction: Construction) -> None:
        task, dtype = self.task, getattr(torch, self.task.dtype)
        file = ModuleFile(task.source, task.path)
        with file.replaced((find_small(file, dtype) or {}) if construction == "small" else {}):
            torch.manual_seed(0)
            module = convert(file.build(), dtype)
            values = [cast(value, dtype) for value in file.inputs()]
        state = module.state_dict(keep_vars=True)
        self._names = parameter_names(module)
        self.parameters = [state[name].detach().clone() for name in self._names]
        self._is_tensor = [isinstance(value, torch.Tensor) for value in values]
        self.scalars = tuple(value for value in values if not isinstance(value, torch.Tensor))
        tensors = (value for value in values if isinstance(value, torch.Tensor))
        pairs = zip(tensors, task.signature.input_tensors, strict=True)
        self.pools = [pool_of(value, tensor, self.base) for value, tensor in pairs]
        self._module = convert(module, torch.float64)

    def _open_kernel(self) -> None:
        parsed = CudaFile(self.task.source, self.task.path)
        self.pools = [
            pool_from_distribution(parsed.distributions[t.name], getattr(torch, t.dtype), torch.device("cpu"))
            for t in self.task.signature.read_tensors
        ]

    def outputs(self, tensors: list[torch.Tensor], scalars: tuple[Number, ...]) -> list[torch.Tensor] | None:
        """In float64; None where there is no module or it refuses."""
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
    """The values that a task's file gives to its scalar arguments, by name."""
    names = [item.name for item in task.signature.inputs if isinstance(item, Scalar)]
    if not names:
        return {}
    return dict(zip(names, Source(task, "small" if task.small else "primary").scalars, strict=True))


def inputs_of(task: Task, seed: int) -> list[Input]:
    """Every size with plain values and with two arrangements, and the small workload with all of them. The
    same seed gives the same inputs. Cheap ones first."""
    rng = random.Random(seed)
    found: list[Input] = []
    for construction in _constructions(task):
        source = Source(task, construction)
        names = list(_ARRANGEMENTS)
        for number, extents in enumerate(_extents(task, source.base, rng)):
            some = names if number == 0 and construction == "small" else [names[0], *rng.sample(names[1:], 2)]
            for arrangement in some:
                made = _input(source, extents, arrangement, rng)
                if made is not None:
                    found.append(made)
    return sorted(found, key=lambda one: sum(t.numel() for t in one.tensors))


def _constructions(task: Task) -> Iterator[Construction]:
    """The small one, and the primary one where fixed sizes differ and are small enough to be emulated."""
    if task.small is not None:
        yield "small"
    fixed = {size.name for size in task.signature.sizes if size.kind == "fixed"}
    sizes = {name: extent if name in fixed else 1 for name, extent in task.primary.sizes.items()}
    least = task.primary.model_copy(update={"sizes": sizes})
    differs = task.small is None or any(task.small.sizes[name] != sizes[name] for name in fixed)
    affordable = task.primary.total_bytes(task.signature) <= MOST_BYTES
    if differs and affordable and _elements(task, least) <= MOST:
        yield "primary"


def _extents(task: Task, base: Workload, rng: random.Random) -> Iterator[dict[str, int]]:
    """Sizes to try: the base's own, then free ones changed; only those that are small enough."""
    free = [size.name for size in task.signature.sizes if size.kind == "free"]
    tried: list[dict[str, int]] = [{}]
    for group in (TINY, ODD, ODD, EVEN):
        tried.append({name: rng.choice(group) for name in free})
    for name in free:
        others = {other: rng.choice(TINY) for other in free}
        tried.append(others | {name: rng.choice(LONG)})
        tried.append(others | {name: task.primary.sizes[name] + rng.choice(ABOVE)})
        tried.append(others | {name: 1 + task.primary.sizes[name] // 2 + rng.choice(ABOVE)})
    for changed in tried:
        extents = base.sizes | changed
        if _elements(task, base.model_copy(update={"sizes": extents})) <= MOST:
            yield extents


def _elements(task: Task, workload: Workload) -> int:
    return sum(workload.elements(tensor) for tensor in task.signature.tensors)


def _input(source: Source, extents: dict[str, int], arrangement: str, rng: random.Random) -> Input | None:
    """None where the module refuses these sizes."""
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
    source: Source,
    wide: list[torch.Tensor],
    scalars: tuple[Number, ...],
    truth: list[torch.Tensor],
    rng: random.Random,
) -> tuple[torch.Tensor, ...]:
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

_ARRANGEMENTS = (
    "plain",
    "large",
    "tiny",
    "negative",
    "positive",
    "zeros",
    "zero rows",
    "constant rows",
    "rising",
    "falling",
    "last largest",
    "ties",
    "shifted",
)


def _draw(value: torch.Tensor, pool: Pool, arrangement: str, workload: Workload, rng: random.Random) -> None:
    """Values of a pool, rearranged. Where a pool has one sign, only its own values are used."""
    fill(value, pool, "written", workload, rng.getrandbits(40))
    if not value.is_floating_point() or value.dim() == 0 or pool.triangle:
        return
    wide = value.double()
    both_signs = bool(pool.values[0] < 0 < pool.values[-1])
    new = _one_signed(wide, arrangement) if not both_signs else _rearranged(wide, arrangement, pool)
    value.copy_(new)


def _one_signed(wide: torch.Tensor, arrangement: str) -> torch.Tensor:
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


def _rearranged(wide: torch.Tensor, arrangement: str, pool: Pool) -> torch.Tensor:
    spread = float(pool.values.double().std())
    new = wide.clone()
    match arrangement:
        case "large":
            new *= 30
        case "tiny":
            new *= 1e-4
        case "negative":
            new = -wide.abs() - spread
        case "positive":
            new = wide.abs()
        case "zeros":
            new.zero_()
        case "zero rows":
            new.view(-1, wide.shape[-1])[::2] = 0
        case "last largest":
            new[..., -1] = 8 * spread
        case "ties":
            new = (wide / spread).round() * spread
        case "shifted":
            new += 32 * spread
        case _:
            new = _one_signed(wide, arrangement)
    return new


def _moved_scalar(value: Number, rng: random.Random) -> Number:
    """Another value of a floating scalar, most of the time; whole numbers stay."""
    if isinstance(value, float):
        return value * rng.choice((1.0, 1.7, 0.3, 100.0)) if value else rng.choice((0.0, 0.5))
    return value
