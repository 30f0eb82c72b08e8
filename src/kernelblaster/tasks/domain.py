"""What values a task's inputs take beyond those that its file draws: found by trying, once for a task.

`torch.rand` may stand for probabilities or for any numbers; a scalar may be a learning rate or a dimension.
So the module is run on the host, in its own precision and in float64, with one thing changed: where both
results are finite, the change is part of the domain. On the host, because a GPU that fails an assertion
is of no use afterwards.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, get_args

import torch

from kernelblaster.records import Tensor, Workload
from kernelblaster.tasks.arrangements import PLANTED, SAFE, Distribution
from kernelblaster.tasks.cuda_file import CudaFile
from kernelblaster.tasks.reference import ModuleReference
from kernelblaster.tasks.values import fill, shuffle

DISTRIBUTIONS: tuple[Distribution, ...] = get_args(Distribution)
LIMIT_S = 2.0
# Without a module that could be asked: what a declared distribution allows beside what is safe.
DECLARED: dict[str, frozenset[Distribution]] = {
    "normal": frozenset(DISTRIBUTIONS) - PLANTED - {"vast-scale", "minute-scale", "subnormal-scale"},
    "uniform": frozenset({"zeros", "equal", "zero-rows", "padded", "one-hot", "small-scale"}),
    "positive": frozenset({"equal", "scaled"}),
}


@dataclass(frozen=True)
class Domain:
    """`taken[i]` are the arrangements that input tensor i takes (SAFE ones are not listed); `scalars` the
    lists of numbers that may take the place of the file's own; `shuffled` names the whole-number
    parameters whose values may come in another order."""

    taken: tuple[frozenset[Distribution], ...]
    scalars: tuple[tuple[Any, ...], ...] = ()
    shuffled: frozenset[str] = frozenset()

    def takes(self, position: int, distribution: Distribution) -> bool:
        return distribution in SAFE or distribution in self.taken[position]


def declared_domain(source: str, path: str, inputs: Sequence[Tensor]) -> Domain:
    """Of a CUDA-source task, from its declarations."""
    distributions = CudaFile(source, path).distributions
    everything = frozenset(DISTRIBUTIONS) - PLANTED
    return Domain(
        tuple(DECLARED.get(distributions[t.name], frozenset()) if t.floating else everything for t in inputs)
    )


def domain_of(reference: ModuleReference, workload: Workload, rng: Random) -> Domain:
    """Of a module, tried at a workload of its construction that should be small. Takes LIMIT_S at most;
    what was not tried by then is not taken. `rng` draws the scalars."""
    trial = _Trial(reference.on_host(), workload, time.monotonic() + LIMIT_S)
    return Domain(trial.taken(), trial.scalars(rng), trial.shuffled())


class _Trial:
    def __init__(self, reference: ModuleReference, workload: Workload, end: float) -> None:
        self._reference = reference
        self._workload = workload
        self._end = end
        self._signature = reference.task.signature

    def taken(self) -> tuple[frozenset[Distribution], ...]:
        inputs = self._signature.input_tensors
        taken: list[set[Distribution]] = [{"nan", "infinite"} if t.floating else set() for t in inputs]
        for distribution in DISTRIBUTIONS:
            if distribution in SAFE or distribution in PLANTED:
                continue
            if self._finite([distribution] * len(inputs)):
                for found in taken:
                    found.add(distribution)
                continue
            for position, found in enumerate(taken):
                chosen: list[Distribution] = ["written"] * len(inputs)
                chosen[position] = distribution
                if len(inputs) > 1 and self._finite(chosen):
                    found.add(distribution)
        return tuple(frozenset(found) for found in taken)

    def scalars(self, rng: Random) -> tuple[tuple[Any, ...], ...]:
        """One scalar at a time beside its own value, then all of them together."""
        own = list(self._reference.scalars)
        singles = [
            [*own[:place], other, *own[place + 1 :]]
            for place, value in enumerate(own)
            for other in _others(value, rng)
        ]
        together = [
            [rng.choice(_others(value, rng)) for value in own] for _ in range(2 if len(own) > 1 else 0)
        ]
        written: list[Distribution] = ["written"] * len(self._signature.input_tensors)
        return tuple(tuple(moved) for moved in singles + together if self._finite(written, scalars=moved))

    def shuffled(self) -> frozenset[str]:
        written: list[Distribution] = ["written"] * len(self._signature.input_tensors)
        whole = [t.name for t in self._signature.parameters if not t.floating]
        return frozenset(name for name in whole if self._finite(written, shuffled=name))

    def _finite(
        self,
        distributions: Sequence[Distribution],
        *,
        scalars: list[Any] | None = None,
        shuffled: str | None = None,
    ) -> bool:
        """Whether the outputs are finite, in both precisions, and have the workload's shapes."""
        if time.monotonic() > self._end:
            return False
        at = self._workload
        shapes = [at.shape(tensor) for tensor in self._signature.outputs]
        for wide in (False, True):
            try:
                outputs = self._run(distributions, scalars, shuffled, wide)
            except Exception:
                return False
            if [tuple(output.shape) for output in outputs] != shapes:
                return False
            if not all(bool(torch.isfinite(o).all()) for o in outputs if o.is_floating_point()):
                return False
        return True

    def _run(
        self,
        distributions: Sequence[Distribution],
        scalars: list[Any] | None,
        shuffled: str | None,
        wide: bool,
    ) -> list[torch.Tensor]:
        reference, workload = self._reference, self._workload
        inputs = []
        for position, tensor in enumerate(self._signature.input_tensors):
            dtype = torch.float64 if wide and tensor.floating else getattr(torch, tensor.dtype)
            target = torch.empty(workload.shape(tensor), dtype=dtype)
            fill(target, reference.pools[position], distributions[position], workload, 1 + position)
            inputs.append(target)
        parameters = []
        for tensor, original in zip(self._signature.parameters, reference.parameters, strict=True):
            value = original.double() if wide and tensor.floating else original.clone()
            if tensor.name == shuffled:
                shuffle(value, original, 3)
            parameters.append(value)
        reference.bind(parameters)
        with reference.with_scalars(scalars):
            if not wide:
                return reference.run(inputs)
            with reference.in_float64():
                return reference.run(inputs)


def _others(value: Any, rng: Random) -> list[Any]:
    """Numbers that may be drawn in the place of one."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        # Some that no byte or half word holds, and neighbours of what they would leave of them.
        beyond = [value + 2 ** rng.choice((8, 9, 16, 17, 24, 31, 32, 40)) for _ in range(3)]
        return [other for other in (value + 1, value - 1, 2 * value, -value, 0, *beyond) if other != value]
    near = [value * 2 ** rng.uniform(-1, 1) for _ in range(3)] if value else [rng.uniform(-1, 1), 0.5]
    near += [(value or 1.0) * 2 ** rng.uniform(-12, 12) for _ in range(3)]
    return [*near, -near[0], 0.0] if value else near
