"""The input values of a verification case (sizes, kind of values, seed), and the float64 outputs of the
reference on them."""

import random
from contextlib import nullcontext
from typing import Literal

import torch

from kernelblaster.devices.device import Arena
from kernelblaster.judge.baseline import Baseline
from kernelblaster.judge.case import FEW_TERMS, Case
from kernelblaster.judge.layout import float64_views
from kernelblaster.judge.nonfinite import Demand, depends
from kernelblaster.judge.operand_rounding import RoundedOperands
from kernelblaster.judge.precision import PIECE, ROUNDING
from kernelblaster.judge.terms import LongestSum
from kernelblaster.records import Task, Tensor
from kernelblaster.records.task import RoundedProducts
from kernelblaster.tasks.distributions import LANDMARKS, Distribution
from kernelblaster.tasks.open_choices import OpenChoice, OpenChoices
from kernelblaster.tasks.plain_attention import plain_attention
from kernelblaster.tasks.values import equalize, fill, perturb, shuffle

PLENTY = 8  # times the bytes of all inputs in float64: with less free memory, the arena is overwritten
ALWAYS_ROOM = 1 << 24  # bytes for which it is not asked how much memory is free: asking takes a while
ANOTHER = 1_000_003  # added to a seed for other values of the same kind
FOCUS_STRENGTH = 4.0  # factor on the perturbation of the parameter in focus
TIED: tuple[Distribution, ...] = ("written", "spiky")  # kinds that test how equal values (ties) are resolved


class Truth:
    """Fills tensors with the values of verification cases of one task, and computes the float64 reference on
    these values. `baseline` is what candidates are compared with; it supplies values for inputs and
    parameters. To save memory, the reference may overwrite `arena`, the memory that candidates work on. `rng`
    makes two random choices: by how much `rounded` changes each value, and which elements `patch` changes."""

    def __init__(self, task: Task, baseline: Baseline, arena: Arena, rng: random.Random) -> None:
        self._task = task
        self._baseline = baseline
        self._arena = arena
        self._rng = rng
        # The tensors that hold the values of the last case, with its seed; None once they are overwritten.
        self._present: tuple[int, list[torch.Tensor]] | None = None
        self._has_indices = not all(tensor.floating for tensor in task.signature.outputs)

    def write(
        self, case: Case, seed: int, inputs: list[torch.Tensor], parameters: list[torch.Tensor]
    ) -> None:
        """Writes the values of the verification case `case`, determined by `seed`, to the tensors `inputs`
        and `parameters`, and remembers that they are there. The float64 reference may read its inputs from
        these tensors later, so nothing else may write to them before the next call of `write`."""
        self.fill(case, seed, inputs, parameters)
        self._present = seed, [*inputs, *parameters]

    def adopt(self, seed: int, tensors: list[torch.Tensor]) -> None:
        """Declares that `tensors` (inputs, then parameters) hold the values of a verification case already,
        so that `write` need not be called. The float64 reference reads its inputs and parameters from them
        when it is computed with the same `seed`."""
        self._present = seed, tensors

    def patch(self, case: Case, seed: int) -> None:
        """Changes a part of what `write` wrote for this verification case: in each tensor, a random run of
        1/64 to 1/16 of its elements gets other values of the same kind, determined by `seed`. From then on,
        the float64 reference reads the changed values."""
        assert self._present is not None, "write() comes first"
        written = self._present[1]
        others = [torch.empty_like(tensor) for tensor in written]
        count = len(self._task.signature.input_tensors)
        self.fill(case, seed + ANOTHER, others[:count], others[count:])
        for tensor, other in zip(written, others, strict=True):
            if tensor.numel() == 0:
                continue
            size = max(1, int(tensor.numel() * self._rng.uniform(1 / 64, 1 / 16)))
            start = self._rng.randrange(tensor.numel() - size + 1)
            tensor.view(-1)[start : start + size] = other.view(-1)[start : start + size]

    def fill(
        self,
        case: Case,
        seed: int,
        inputs: list[torch.Tensor],
        parameters: list[torch.Tensor],
        instead: Distribution | None = None,
    ) -> None:
        """Writes the values of a verification case, determined by `seed`, to these input and parameter
        tensors. `instead` is a kind of values for all inputs in place of the kinds that the case names; None:
        the kinds that the case names. Inputs that keep the task file's own values in this case keep them also
        with `instead`."""
        signature = self._task.signature
        baseline = self._baseline.at(case.workload)
        for position in range(len(signature.input_tensors)):
            distribution = case.arrangement(position)
            if instead is not None and distribution != "written":
                distribution = instead
            fill(inputs[position], baseline.pools[position], distribution, case.workload, seed + position)
        if case.twins:
            equalize(inputs)
        self.fill_parameters(case, seed, parameters)

    def fill_parameters(self, case: Case, seed: int, parameters: list[torch.Tensor]) -> None:
        """Writes parameter values, determined by `seed`, to the tensors `parameters`: the module's own
        values, perturbed or shuffled as the verification case `case` says."""
        baseline = self._baseline.at(case.workload)
        for position, tensor in enumerate(self._task.signature.parameters):
            original, target = baseline.parameters[position], parameters[position]
            if tensor.name in case.shuffled:
                shuffle(target, original, seed + 1000 + position)
            elif tensor.name == case.focus:
                perturb(target, original, seed + 1000 + position, FOCUS_STRENGTH)
            elif case.moved:
                perturb(target, original, seed + 1000 + position)
            else:
                target.copy_(original)

    def outputs(
        self, case: Case, seed: int
    ) -> tuple[list[torch.Tensor] | None, LongestSum, list[OpenChoice | None]]:
        """Returns (outputs, seen, choices). `outputs` are the float64 reference's, on the values that `case`
        and `seed` determine; None if there is no float64 reference. `seen` has watched the operators run, and
        knows the length of the longest sum. `choices` has one entry for each output. An output may hold
        indices for which PyTorch may choose among equal elements, as topk does; its entry then says which
        other indices are right. All other entries are None. May overwrite the arena, the memory that
        candidates work on."""
        seen = LongestSum(weighed=case.distribution in FEW_TERMS)
        if not self._has_indices:
            return self._wide(case, seed, seen=seen), seen, [None] * len(self._task.signature.outputs)
        with OpenChoices() as chosen:
            outputs = self._wide(case, seed, seen=seen)
        return outputs, seen, chosen.of(outputs or [])

    def rounded(self, case: Case, seed: int, *, ties: bool = True) -> list[torch.Tensor] | None:
        """Returns the float64 reference outputs of the verification case `case` after every floating-point
        value of inputs and parameters (determined by `seed`) was changed by up to one rounding of its type.
        The difference from the result of `outputs`, which uses the unchanged values, shows how much roundings
        of the inputs change the result. None if there is no float64 reference.

        Usually each value is changed by itself. Equal values are changed equally, so that they stay equal, if
        some output is not floating-point. With `ties`, this is also done for the kinds of values that test
        how equal elements are told apart (TIED). With the kind "landmarks", special numbers such as 0 and 1
        are not changed.
        """
        return self._wide(case, seed, shake="tied" if ties else "apart")

    def coarse(self, case: Case, seed: int, products: RoundedProducts) -> list[torch.Tensor] | None:
        """Returns the float64 reference outputs of the verification case `case` (values determined by
        `seed`), computed with operands rounded to TF32. `products` says which operands: those of
        "convolutions", or of all "products". Returns None if `products` is "none", or if there is no float64
        reference."""
        return None if products == "none" else self._wide(case, seed, seen=RoundedOperands(products))

    def demands(
        self, case: Case, seed: int, truth: list[torch.Tensor], right: list[torch.Tensor], seen: LongestSum
    ) -> list[Demand] | None:
        """Returns what is required of each output in a verification case in which some inputs are NaN or
        infinite: one `Demand` for each output. None if there is no float64 reference. The case `case` and
        `seed` determine the input values. `truth` are the float64 reference's outputs on them, `right` are
        PyTorch's own outputs. `seen` is the second result of the method `outputs` for this case; it tells
        whether integers may have been computed from floating-point values."""
        high = self._wide(case, seed, instead="planted-high")
        low = self._wide(case, seed, instead="planted-low")
        with plain_attention():
            other = self._wide(case, seed)
        if high is None or low is None or other is None:
            return None
        moving = [depends(one, another) for one, another in zip(high, low, strict=True)]
        infinite = case.distribution == "infinite"
        return [
            Demand(*found, infinite=infinite, made=seen.converts)
            for found in zip(truth, other, moving, right, strict=True)
        ]

    def _wide(
        self,
        case: Case,
        seed: int,
        *,
        shake: Literal["no", "tied", "apart"] = "no",
        instead: Distribution | None = None,
        seen: LongestSum | RoundedOperands | None = None,
    ) -> list[torch.Tensor] | None:
        """The float64 reference outputs on the case's values, in memory outside the arena; None if there is
        no float64 reference. With `shake`, inputs are perturbed by a rounding, equal values equally where
        ties are tested ("tied") or each by itself ("apart"). `instead` is as in `fill`, `seen` is a context
        that watches or changes the operators."""
        tensors = list(self._task.signature.read_tensors)
        count = len(self._task.signature.input_tensors)
        views = self._widened(case, seed, instead)
        if shake != "no":
            self._shake(tensors, views, case.distribution, ties=shake == "tied")
        with seen or nullcontext():
            outputs = self._baseline.at(case.workload).wide(views[:count], views[count:])
        if outputs is None:
            return None
        return [t.clone() if t.data_ptr() in {v.data_ptr() for v in views} else t for t in outputs]

    def _widened(self, case: Case, seed: int, instead: Distribution | None) -> list[torch.Tensor]:
        """The case's inputs and parameters in float64: converted from what `write` wrote, or drawn again from
        `seed`. `instead` is a kind of values to use in place of those that the case names (None: those). In
        new memory if plenty is free, else in the arena (the memory that candidates work on), which they
        overwrite."""
        tensors = list(self._task.signature.read_tensors)
        count = len(self._task.signature.input_tensors)
        device = self._arena.memory.device
        size = 8 * sum(case.workload.elements(tensor) for tensor in tensors)
        drawn_again = not case.patched  # what was patched cannot be
        ask = device.type == "cuda" and size > ALWAYS_ROOM
        free = torch.cuda.mem_get_info(device)[0] if ask else None
        if drawn_again and free is not None and free < PLENTY * size + (1 << 30):
            self._present = None
            views = float64_views(self._arena, tensors, case.workload)
        else:
            if instead is None and self._present is not None and self._present[0] == seed:
                return [
                    value.to(torch.float64, copy=True) if tensor.floating else value.clone()
                    for tensor, value in zip(tensors, self._present[1], strict=True)
                ]
            views = [
                torch.empty(
                    case.workload.shape(tensor),
                    dtype=torch.float64 if tensor.floating else getattr(torch, tensor.dtype),
                    device=device,
                )
                for tensor in tensors
            ]
        self.fill(case, seed, views[:count], views[count:], instead)
        return views

    def _shake(
        self, tensors: list[Tensor], views: list[torch.Tensor], distribution: Distribution, *, ties: bool
    ) -> None:
        """Perturb every floating value of `views`, which hold the values of `tensors` in float64, in place by
        up to one rounding of the tensor's type. With `ties`, in the kinds of values in TIED, and always for
        integer outputs, equal values are perturbed equally, so that ties remain; with "landmarks", special
        numbers (0, 1, ...) are not perturbed. So a rounding never excuses another decision on a tie or a
        special number."""
        seed = self._rng.getrandbits(40)
        tied = (ties and distribution in TIED) or not all(t.floating for t in self._task.signature.outputs)
        generator = torch.Generator(views[0].device).manual_seed(seed) if views else None
        for tensor, view in zip(tensors, views, strict=True):
            if tensor.floating:
                unit = ROUNDING[getattr(torch, tensor.dtype)]
                flat = view.view(-1)
                for start in range(0, flat.numel(), PIECE):
                    piece = flat[start : start + PIECE]
                    if tied:
                        factors = scattered(piece, seed)
                    else:
                        factors = torch.empty_like(piece).uniform_(-1, 1, generator=generator)
                    factors.mul_(unit).add_(1)
                    if distribution == "landmarks":
                        marks = torch.tensor(LANDMARKS, dtype=piece.dtype, device=piece.device)
                        factors[torch.isin(piece, marks)] = 1.0
                    piece.mul_(factors)


def scattered(values: torch.Tensor, seed: int) -> torch.Tensor:
    """Returns a pseudo-random number in [-1, 1) for each of `values` (float64), which depends on the value
    and the seed only: equal values get equal numbers."""
    bits = values.view(torch.int64) ^ seed
    for shift in (29, 32):
        bits.bitwise_xor_(bits >> shift).mul_(-0x61C8864680B583EB)
    return (bits >> 11).double().mul_(2.0**-52)
