"""Finds out by trying, once per task, which values a task's inputs accept beyond those that its file draws.

`torch.rand` may stand for probabilities or for arbitrary numbers; a scalar may be a learning rate or a
dimension. So the module is run on the host, in its own precision and in float64, with one thing changed: if
both results are finite, the change belongs to the domain. It runs on the host because a GPU is unusable after
a failed assertion.
"""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from random import Random
from typing import Any, get_args

import torch

from kernelblaster.processes.processor_time import WorkLimit
from kernelblaster.records import Tensor, Workload
from kernelblaster.tasks.arrangements import SAFE
from kernelblaster.tasks.cuda_file import CudaFile
from kernelblaster.tasks.distributions import LANDMARKS, OCTAVES, PLANTED, Distribution
from kernelblaster.tasks.operators import Operators
from kernelblaster.tasks.reference import ModuleReference
from kernelblaster.tasks.values import equalize, fill, shuffle

DISTRIBUTIONS: tuple[Distribution, ...] = get_args(Distribution)
LIMIT_S = 2.0
# How many bits other values of an integer scalar have, one from each range: more than a byte, a half word,
# and a word hold, and some between. Not tried: sizes that a host's memory may just hold.
BITS = ((9, 15), (17, 19), (20, 24), (33, 41))
# Without a module that could be asked: what a declared distribution allows beside what is safe.
DECLARED: dict[str, frozenset[Distribution]] = {
    "normal": frozenset(DISTRIBUTIONS)
    - PLANTED
    - frozenset(OCTAVES)
    - {"vast-scale", "minute-scale", "subnormal-scale"},
    "uniform": frozenset({"zeros", "equal", "zero-rows", "padded", "one-hot", "small-scale"}),
    "positive": frozenset({"equal", "scaled"}),
}


@dataclass(frozen=True)
class Domain:
    """What may be varied in a module's inputs while its outputs stay finite.

    `taken[i]`: kinds of values that input tensor i accepts, beyond those that every input accepts because
    they only choose among the file's own values (SAFE in tasks/arrangements.py). `scalars`: each element has
    a value for every scalar input, and may replace the file's scalars. `landmarks`: the same with special
    numbers (LANDMARKS, like 1 or 0.5) for floating scalars, used when the tensors hold such numbers too.
    `shuffled`: names of integer parameters whose elements may be permuted. `twins`: floating inputs of equal
    shape may hold equal values. `cut_short`: time was over before all of this had been tried.
    """

    taken: tuple[frozenset[Distribution], ...]
    scalars: tuple[tuple[Any, ...], ...] = ()
    landmarks: tuple[tuple[Any, ...], ...] = ()
    shuffled: frozenset[str] = frozenset()
    twins: bool = False
    cut_short: bool = False

    def takes(self, position: int, distribution: Distribution) -> bool:
        """True if the input tensor number `position` (from 0) may be filled with the kind of values
        `distribution`. Kinds that only choose among the file's own values are always accepted; others only if
        they were tried on this input and accepted."""
        return distribution in SAFE or distribution in self.taken[position]


def declared_domain(source: str, path: str, inputs: Sequence[Tensor]) -> Domain:
    """The domain of a CUDA-source task, that is, what may be varied in its inputs. There is no module to try
    it on. So it follows from the distribution that the source declares for each of `inputs`, by the table
    DECLARED; integer inputs accept everything. `path` names the source in messages."""
    distributions = CudaFile(source, path).distributions
    everything = frozenset(DISTRIBUTIONS) - PLANTED
    return Domain(
        tuple(DECLARED.get(distributions[t.name], frozenset()) if t.floating else everything for t in inputs)
    )


def domain_of(reference: ModuleReference, workload: Workload, rng: Random) -> Domain:
    """The domain of a module, that is, what may be varied in its inputs. It is found by running `reference`
    at `workload`, which should be small, with one thing changed at a time. Takes at most two seconds of
    processor time (LIMIT_S); what was not tried by then counts as not accepted, and the domain is marked as
    `cut_short`. `rng` draws the scalars to try, and the order in which kinds of values are tried."""
    limit = WorkLimit(LIMIT_S)
    trial = _Trial(reference.on_host(), workload, limit)
    found = Domain(
        trial.taken(rng), trial.scalars(rng), trial.landmarks(rng), trial.shuffled(), twins=trial.twins()
    )
    return replace(found, cut_short=limit.met)


@dataclass(frozen=True)
class _Change:
    """How the inputs of one trial differ from the file's own. `values`: one arrangement for each input tensor
    (empty: "written", as the file draws them, for all); `scalars`: other scalar inputs (None: the file's);
    `shuffled`: the integer parameter to permute; `twins`: equal values in inputs of equal shape."""

    values: tuple[Distribution, ...] = ()
    scalars: tuple[Any, ...] | None = None
    shuffled: str | None = None
    twins: bool = False


class _Trial:
    """Runs a task's module on the host with changed inputs to see whether its outputs stay finite. Once
    `limit` is reached, every trial counts as failed."""

    def __init__(self, reference: ModuleReference, workload: Workload, limit: WorkLimit) -> None:
        self._reference = reference
        self._workload = workload
        self._limit = limit
        self._signature = reference.task.signature

    def taken(self, rng: Random) -> tuple[frozenset[Distribution], ...]:
        """For each input the arrangements of values that it accepts besides SAFE, tried on all inputs at
        once, and if that fails on each alone. Infinity, and values of all magnitudes in one tensor (OCTAVES),
        only for elementwise modules: elsewhere correct arithmetic may turn infinity into NaN (split operands,
        running means)."""
        inputs = self._signature.input_tensors
        alone = self._pointwise()
        planted: set[Distribution] = {"nan", "infinite"} if alone else {"nan"}
        taken: list[set[Distribution]] = [set(planted) if t.floating else set() for t in inputs]
        for distribution in rng.sample(DISTRIBUTIONS, len(DISTRIBUTIONS)):  # none is always the last one
            if distribution in SAFE or distribution in PLANTED or (distribution in OCTAVES and not alone):
                continue
            if self._finite(_Change((distribution,) * len(inputs))):
                for found in taken:
                    found.add(distribution)
                continue
            for position, found in enumerate(taken):
                chosen: list[Distribution] = ["written"] * len(inputs)
                chosen[position] = distribution
                if len(inputs) > 1 and self._finite(_Change(tuple(chosen))):
                    found.add(distribution)
        return tuple(frozenset(found) for found in taken)

    def scalars(self, rng: Random) -> tuple[tuple[Any, ...], ...]:
        """Lists of other values for all scalar inputs, each accepted by the module. All scalars are changed
        together; where the module refuses that, one at a time. There are as many tries as the scalar with the
        most other values has. Empty without scalars."""
        own = list(self._reference.scalars)
        if not own:
            return ()
        others = [_others(value, rng) for value in own]
        for values in others:
            rng.shuffle(values)
        taken = []
        for turn in range(max(len(values) for values in others)):
            together = tuple(values[turn % len(values)] for values in others)
            singles = [(*own[:at], other, *own[at + 1 :]) for at, other in enumerate(together)]
            if self._finite(_Change(scalars=together)):
                taken.append(together)
            elif len(own) > 1:
                taken += [one for one in singles if self._finite(_Change(scalars=one))]
        return tuple(taken)

    def landmarks(self, rng: Random) -> tuple[tuple[Any, ...], ...]:
        """Up to four lists of values for all scalar inputs, in which each floating one is a positive number
        of LANDMARKS, accepted together with input tensors of that arrangement. Empty without floating
        scalars."""
        own = list(self._reference.scalars)
        if not any(isinstance(value, float) for value in own):
            return ()
        marks = [mark for mark in LANDMARKS if mark > 0]
        drawn = [
            tuple(rng.choice(marks) if isinstance(value, float) else value for value in own) for _ in range(4)
        ]
        chosen: list[Distribution] = ["landmarks"] * len(self._signature.input_tensors)
        return tuple(moved for moved in drawn if self._finite(_Change(tuple(chosen), scalars=moved)))

    def twins(self) -> bool:
        """Whether there are floating-point inputs of equal shape, and the module's outputs stay finite when
        these hold equal values."""
        shapes = [self._workload.shape(t) for t in self._signature.input_tensors if t.floating]
        return len(set(shapes)) < len(shapes) and self._finite(_Change(twins=True))

    def _pointwise(self) -> bool:
        """Whether the module runs elementwise operators only; False if its own inputs give no finite
        result."""
        if not self._finite(_Change()):
            return False
        inputs, seen = self._bind(_Change(), wide=False), Operators()
        with seen:
            self._reference.run(inputs)
        return seen.pointwise

    def shuffled(self) -> frozenset[str]:
        """Names of the integer parameters (index tables, masks) that the module still accepts with their
        elements in another order."""
        whole = [t.name for t in self._signature.parameters if not t.floating]
        return frozenset(name for name in whole if self._finite(_Change(shuffled=name)))

    def _finite(self, change: _Change) -> bool:
        """Whether the changed inputs are accepted: the module runs in its own precision and in float64,
        and both outputs are finite and have the workload's shapes. False once the time is over."""
        if self._limit.reached:
            return False
        shapes = [self._workload.shape(tensor) for tensor in self._signature.outputs]
        for wide in (False, True):
            try:
                outputs = self._run(change, wide)
            except Exception:
                return False
            if [tuple(output.shape) for output in outputs] != shapes:
                return False
            if not all(bool(torch.isfinite(o).all()) for o in outputs if o.is_floating_point()):
                return False
        return True

    def _run(self, change: _Change, wide: bool) -> list[torch.Tensor]:
        """Runs the module on inputs that differ from the file's own by `change`, in its own precision or, if
        `wide`, in float64; returns its outputs."""
        inputs, reference = self._bind(change, wide), self._reference
        with reference.with_scalars(change.scalars), reference.in_float64() if wide else nullcontext():
            return reference.run(inputs)

    def _bind(self, change: _Change, wide: bool) -> list[torch.Tensor]:
        """Draw the inputs with this change and bind the parameters to the reference; returns the inputs.
        `wide`: floating tensors in float64."""
        reference, workload = self._reference, self._workload
        values: Sequence[Distribution] = change.values or ["written"] * len(self._signature.input_tensors)
        inputs = []
        for position, tensor in enumerate(self._signature.input_tensors):
            dtype = torch.float64 if wide and tensor.floating else getattr(torch, tensor.dtype)
            target = torch.empty(workload.shape(tensor), dtype=dtype)
            fill(target, reference.pools[position], values[position], workload, 1 + position)
            inputs.append(target)
        if change.twins:
            equalize(inputs)
        parameters = []
        for tensor, original in zip(self._signature.parameters, reference.parameters, strict=True):
            value = original.double() if wide and tensor.floating else original.clone()
            if tensor.name == change.shuffled:
                shuffle(value, original, 3)
            parameters.append(value)
        reference.bind(parameters)
        return inputs


def _others(value: Any, rng: Random) -> list[Any]:
    """Other values to try in place of a scalar input `value`: for a number, close and distant ones, negative
    ones and zero; for an integer also one of each number of BITS, of either sign. `rng` draws them."""
    if isinstance(value, bool):
        return [not value, value]  # in turn, so that others move on either side
    if isinstance(value, int):
        usual = [other for other in (value + 1, value - 1, 2 * value, -value, 0) if other != value]
        return usual + [rng.choice((1, -1)) * _of_bits(rng.randint(*bits), rng) for bits in BITS]
    own = value or 1.0
    near, far = own * 2 ** rng.uniform(-1, 1), own * 2 ** rng.uniform(1.5, 5)
    others = [near, -near, far, -far, own * 2 ** rng.uniform(-5, -1.5), own * 2 ** rng.uniform(5, 12)]
    return [*others, 0.0] if value else others


def _of_bits(bits: int, rng: Random) -> int:
    """A random integer that needs exactly `bits` bits: from 2**(bits-1) to 2**bits - 1."""
    return rng.randrange(1 << bits - 1, 1 << bits)
