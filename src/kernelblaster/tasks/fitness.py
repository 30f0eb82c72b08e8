"""Checks whether candidates can be judged for a task. Its PyTorch module must give finite outputs, the same
in every run. They must depend on every input, and the module must not write to an input."""

import torch

from kernelblaster.records import Fitness, Task, Workload
from kernelblaster.tasks.open_choices import OpenChoices
from kernelblaster.tasks.reference import ModuleReference, open_reference
from kernelblaster.tasks.values import fill, perturb


def fitness_of(task: Task, device: torch.device | None = None) -> Fitness:
    """Returns a `Fitness`: the reasons, in words, why candidates for `task` cannot be judged (none if they
    can), the parameters on which the output does not depend, and the operators that leave open which of equal
    elements they choose. To find them, the task's module is run several times at its smallest workload, on
    the CPU unless `device` is given. For a task that is a CUDA source, the result is empty: such a task is
    checked later, when its kernel is run."""
    if task.kind == "cuda":
        return Fitness()
    workload = task.small or min(task.workloads, key=lambda w: w.total_bytes(task.signature))
    return _Check(task, workload, device or torch.device("cpu")).result()


class _Check:
    """A task's module (the reference) at one workload, with the tensors of its inputs and parameters, which
    the checks change and restore."""

    def __init__(self, task: Task, workload: Workload, device: torch.device) -> None:
        self.task = task
        self.workload = workload
        self.reference: ModuleReference = open_reference(task, workload, device)
        dtypes = [getattr(torch, t.dtype) for t in task.signature.input_tensors]
        self.inputs = [
            torch.empty(workload.shape(t), dtype=dtype, device=device)
            for t, dtype in zip(task.signature.input_tensors, dtypes, strict=True)
        ]
        self.parameters = [p.to(device).clone() for p in self.reference.parameters]

    def result(self) -> Fitness:
        """Run all checks and return what they found. Whether the output depends on inputs and parameters is
        checked only if nothing else is wrong."""
        self._fill(seed=1)
        with OpenChoices() as chosen:
            first = self._outputs()
        chosen.of(first)
        again = self._outputs()
        problems = self._written_inputs()
        problems += self._kept_state(first)
        if not _equal(first, again):
            problems.append(
                "random: two runs on the same inputs differ (dropout? call eval() on the module; in a file, "
                "end __init__ with self.eval())"
            )
        floating = [o for o in first if o.is_floating_point()]
        if not all(bool(torch.isfinite(o).all()) for o in floating):
            problems.append("not finite: the output holds inf or nan on the task's own inputs")
        if all(bool((o == 0).all()) for o in first):
            problems.append("constant: the output is zero everywhere")
        if not problems:
            problems += self._unresponsive_inputs(first)
        insensitive = () if problems else self._unresponsive_parameters(first)
        return Fitness(
            problems=tuple(problems),
            insensitive=insensitive,
            open_choices=tuple(sorted(chosen.used)),
            unordered=chosen.unordered,
        )

    def _fill(self, seed: int) -> None:
        """Fills all inputs with new random values like those that the task's file makes; equal seeds give
        equal values."""
        for position, (target, pool) in enumerate(zip(self.inputs, self.reference.pools, strict=True)):
            fill(target, pool, "written", self.workload, seed + 1000 * position)

    def _outputs(self) -> list[torch.Tensor]:
        """The outputs for the present inputs and parameters, all copied, since a module may write into
        them."""
        self.reference.bind([p.clone() for p in self.parameters])
        return [o.clone() for o in self.reference.run([i.clone() for i in self.inputs])]

    def _written_inputs(self) -> list[str]:
        """A problem, in words, for each input that the module changes in place. A kernel may not do that,
        since its result would then depend on how often it ran."""
        given = [i.clone() for i in self.inputs]
        self.reference.bind([p.clone() for p in self.parameters])
        self.reference.run(given)
        names = [tensor.name for tensor in self.task.signature.input_tensors]
        changed = [n for n, a, b in zip(names, self.inputs, given, strict=True) if not _same_numbers(a, b)]
        return [
            f"in place: forward() writes to its input {name} (use a copy: {name} = {name}.clone(), or a "
            "layer with inplace=False)"
            for name in changed
        ]

    def _kept_state(self, first: list[torch.Tensor]) -> list[str]:
        """A problem, in words, if the result of a call depends on the call before, through a tensor that the
        module keeps: then a second call without fresh buffers differs from the outputs `first`. Empty
        otherwise."""
        self.reference.bind([p.clone() for p in self.parameters])
        self.reference.run([i.clone() for i in self.inputs])
        again = self.reference.run([i.clone() for i in self.inputs])
        if _equal(first, again) or not _equal(first, self._outputs()):
            return []
        return [
            "state: the result depends on the calls before, through a tensor that the module keeps in an "
            "attribute or a buffer (give it as an input, and return the new one)"
        ]

    def _unresponsive_inputs(self, first: list[torch.Tensor]) -> list[str]:
        """A problem, in words, for each input that can be drawn anew without changing the outputs `first`, or
        a single one if that holds for all."""
        silent = []
        for position, tensor in enumerate(self.task.signature.input_tensors):
            saved = self.inputs[position].clone()
            fill(self.inputs[position], self.reference.pools[position], "written", self.workload, 77)
            if _equal(first, self._outputs()):
                silent.append(tensor.name)
            self.inputs[position].copy_(saved)
        if silent and len(silent) == len(self.inputs):
            return ["constant: the output does not depend on any input"]
        return [self._insensitive(name) for name in silent]

    def _insensitive(self, name: str) -> str:
        """The problem, in words, that the output does not depend on input `name`; it says so if that input
        has a single value throughout."""
        names = [tensor.name for tensor in self.task.signature.input_tensors]
        values = self.reference.pools[names.index(name)].values
        if len(values) and bool((values == values[0]).all()):
            return (
                f"insensitive: input {name} is {values[0].item():g} everywhere in get_inputs(), so that no "
                "kernel could be seen to read it (draw its values: torch.rand, torch.randint)"
            )
        return f"insensitive: the output does not depend on input {name}"

    def _unresponsive_parameters(self, first: list[torch.Tensor]) -> tuple[str, ...]:
        """Names of the parameters that have no influence: the outputs stay equal to `first`, up to rounding,
        when the parameter is perturbed. They are restored."""
        silent = []
        for position, tensor in enumerate(self.task.signature.parameters):
            saved = self.parameters[position].clone()
            perturb(self.parameters[position], saved, seed=99, strength=2.0)
            if _close(first, self._outputs()):
                silent.append(tensor.name)
            self.parameters[position].copy_(saved)
        return tuple(silent)


def _same_numbers(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors of the same shape and type are equal in every element. NaN is equal to NaN
    here."""
    if not one.is_floating_point():
        return torch.equal(one, other)
    return torch.equal(one.nan_to_num(), other.nan_to_num())


def _equal(one: list[torch.Tensor], other: list[torch.Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def _close(one: list[torch.Tensor], other: list[torch.Tensor]) -> bool:
    """Whether outputs are equal up to rounding: floating ones within 64 units of rounding of their
    largest value, others exactly. (A bias that a normalization removes leaves such noise.)"""
    for a, b in zip(one, other, strict=True):
        if not a.is_floating_point():
            if not torch.equal(a, b):
                return False
            continue
        scale = float(a.double().abs().max())
        noise = 64 * torch.finfo(a.dtype).eps
        if float((a.double() - b.double()).abs().max()) > noise * max(scale, 1e-30):
            return False
    return True
