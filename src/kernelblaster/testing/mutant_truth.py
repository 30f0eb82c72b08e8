"""Decides whether a mutant (a kernel with one planted mistake) is wrong, without the judge: original and
mutant run on many inputs in the emulator of PTX.

A mutant is wrong if the emulator finds a race, an access out of bounds or an uninitialized read that the
original does not have, if it fails or writes elsewhere, or if an output is further from the float64 truth
than another order of summation explains. If no input shows any of this, it is equivalent or unknown;
equivalence is never proved.
"""

import random
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

from kernelblaster.devices.device import Arena, CandidateDied, CandidateHung
from kernelblaster.devices.emulated import EmulatedDevice, EmulatedRunner
from kernelblaster.errors import KernelBlasterError
from kernelblaster.judge.layout import Layout, lay_out, slot_bytes
from kernelblaster.judge.precision import ROUNDING
from kernelblaster.records import Task, Workload
from kernelblaster.testing.admissible import Input, inputs_of

POISON = 0xFF
SCRATCH_POISONS = (0xFF, 0x3E, 0x00)
ELEMENT = 128.0  # times an element's noise: wrong whatever else is right
WHOLE = 32.0  # times the root mean square of the original's error: more than an order of summation makes
CLOSE = 1e-2  # the original's own relative error; where it is larger, the input is not admissible
LEAST = 1e-30
TOGETHER = 8  # calls that are recorded together
SLOW_S = 0.5


@dataclass(frozen=True)
class _Known:
    """An input for which the original kernel is right, and the original's outputs for it."""

    input: Input
    outputs: tuple[torch.Tensor, ...]


class MutantTruth:
    """Decides whether mutants (copies of one kernel with one planted mistake each) are wrong, by running them
    in the emulator (`device`). `original` is the compiled kernel without a mistake. It is run first, on many
    inputs for `task`, which `seed` draws; `known` has the inputs for which its outputs are right, each with
    these outputs. Not thread-safe. Making this object raises KernelBlasterError if the original crashes or
    hangs, or if no input is small enough to be emulated."""

    def __init__(self, device: EmulatedDevice, task: Task, original: Path, seed: int) -> None:
        self._device = device
        self._task = task
        self._seed = seed
        inputs = inputs_of(task, seed)
        if not inputs:
            raise KernelBlasterError(f"{task.name}: no admissible input is small enough for the emulator")
        self._slots = slot_bytes(task.signature, [one.workload for one in inputs])
        self.known: list[_Known] = []
        try:
            self._learn(original, inputs)
        except (CandidateDied, CandidateHung) as error:
            raise KernelBlasterError(f"{task.name}: the original fails: {error}") from error

    def difference(self, mutant: Path, at: Workload | None = None) -> str | None:
        """Returns in words how the compiled mutant is wrong and on which input; None if no input shows it.
        With `at`, only inputs of those sizes are tried. Raises NotEmulated if the emulator lacks an
        instruction."""
        some = [k for k in self.known if at is None or k.input.workload.sizes == at.sizes]
        inputs = [known.input for known in some]
        try:
            with self._runner(mutant) as runner:
                for number, (one, layout) in enumerate(self._recorded(runner, inputs)):
                    found = self._run(runner, one, layout, number)
                    right = some[number].outputs
                    wrong = found if isinstance(found, str) else compare(one, right, found)
                    if wrong is not None:
                        return f"{one.title}: {wrong}"
        except (CandidateDied, CandidateHung) as error:
            return f"it fails: {error}"
        return None

    def _learn(self, original: Path, inputs: list[Input]) -> None:
        """Run the original on all inputs and keep in `known` those for which it is right; of sizes at which
        one run takes over SLOW_S seconds, only the first input is tried."""
        slow: set[str] = set()
        with self._runner(original) as runner:
            for number, (one, layout) in enumerate(self._recorded(runner, inputs)):
                sizes = str(one.workload.sizes)
                if sizes in slow:
                    continue
                start = time.perf_counter()
                outputs = self._run(runner, one, layout, number)
                if time.perf_counter() - start > SLOW_S:
                    slow.add(sizes)
                if not isinstance(outputs, str) and _close(one, outputs):
                    self.known.append(_Known(one, outputs))

    def _recorded(self, runner: EmulatedRunner, inputs: Sequence[Input]) -> Iterator[tuple[Input, Layout]]:
        """Yields each input with its layout (where its tensors lie) in the device's memory. The kernel's
        launches are recorded for TOGETHER inputs at once, which is faster."""
        arena = self._device.arena(self._slots)
        for start in range(0, len(inputs), TOGETHER):
            some = inputs[start : start + TOGETHER]
            layouts = [_laid_out(arena, self._task, one, self._seed) for one in some]
            pairs = list(zip(some, layouts, strict=True))
            runner.record([layout.arguments(self._task.signature, one.scalars) for one, layout in pairs])
            yield from pairs

    @contextmanager
    def _runner(self, binary: Path) -> Iterator[EmulatedRunner]:
        """A context in which the compiled kernel `binary` is loaded in the emulator; it yields the object
        that calls it."""
        self._device.arena(self._slots)
        runner = self._device.start(binary)
        try:
            yield runner
        finally:
            runner.close()

    def _run(
        self, runner: EmulatedRunner, one: Input, layout: Layout, number: int
    ) -> tuple[torch.Tensor, ...] | str:
        """Calls the kernel that `runner` has loaded once on an input, whose tensors lie as `layout` says:
        returns its outputs, or what went wrong, in words. `number` selects the byte that scratch memory is
        filled with before."""
        signature = self._task.signature
        for tensor, value in zip(signature.read_tensors, one.tensors, strict=True):
            layout.view(tensor).copy_(value)
        for tensor in signature.outputs:
            layout.raw(tensor).fill_(POISON)
        layout.set_guards()
        poison = SCRATCH_POISONS[number % len(SCRATCH_POISONS)]
        arguments = layout.arguments(signature, one.scalars)
        report = runner.call(arguments, scratch_poison=poison, accounting=False)
        if report.findings:
            return report.findings[0]
        if report.error or report.violations:
            return report.error or report.violations[0]
        if report.live_bytes:
            return "scratch memory is not given back"
        if layout.broken_guard() is not None:
            return "written outside its outputs"
        for tensor, value in zip(signature.read_tensors, one.tensors, strict=True):
            raw = layout.view(tensor).reshape(-1).view(torch.uint8)
            if not torch.equal(raw, value.reshape(-1).view(torch.uint8)):
                return f"{tensor.name} was written to"
        return tuple(layout.view(tensor).clone() for tensor in signature.outputs)


def compare(one: Input, right: tuple[torch.Tensor, ...], found: tuple[torch.Tensor, ...]) -> str | None:
    """Compares the outputs of mutant (`found`) and original (`right`) for one input. Returns in words how the
    mutant's are wrong; None if they are not. Whole numbers must be equal. For floating-point elements, three
    errors are expected: the original's own, the effect of one rounding of the inputs, and one rounding of the
    output. Errors are taken from the float64 truth or, if there is none (a CUDA-source task), from the
    original's outputs. An output is wrong in these cases.
    (1) An element's error is more than 128 times (ELEMENT) the largest of the three expected there.
    (2) The root mean square of all errors is more than 32 times (WHOLE) the largest of the root mean squares
    of the three.
    (3) An element is not finite where the original's is."""
    for position, (original, output) in enumerate(zip(right, found, strict=True)):
        if torch.equal(_bits(original), _bits(output)):
            continue
        if not original.is_floating_point():
            return f"{int((original != output).sum())} of {output.numel()} whole numbers differ"
        truth = one.truth[position] if one.truth else original.double()
        noise = one.noise[position] if one.noise else torch.zeros_like(truth)
        wrong = _compare_floating(original.double(), output, truth, noise)
        if wrong is not None:
            return wrong
    return None


def _compare_floating(
    original: torch.Tensor, output: torch.Tensor, truth: torch.Tensor, noise: torch.Tensor
) -> str | None:
    """How one floating output of a mutant (`output`) is wrong, in words; None if it is not. An element may
    be off by ELEMENT times the expected error (the largest of the error of `original`, `noise` and one
    rounding), the root mean square over all elements by WHOLE times its expected one. `truth` is the output
    in float64, `noise` how much one rounding of the inputs changes it."""
    finite = torch.isfinite(original) & torch.isfinite(truth)
    if not bool(torch.isfinite(output[finite]).all()):
        return "not finite"
    unit = ROUNDING[output.dtype]
    own = (original - truth).abs()[finite]
    error = (output.double() - truth).abs()[finite]
    noise, scale = noise[finite], truth.abs()[finite]
    expected = torch.maximum(torch.maximum(own, noise), unit * scale).clamp_min(LEAST)
    ratio = float((error / expected).max()) if error.numel() else 0.0
    if ratio > ELEMENT:
        return f"an element is off by {ratio:.3g} times its noise"
    whole = _rms(error) / max(_rms(own), _rms(noise), unit * _rms(scale), LEAST)
    return f"{whole:.3g} times the original's error" if whole > WHOLE else None


def _close(one: Input, found: tuple[torch.Tensor, ...]) -> bool:
    """Whether the original's outputs `found` are right for this input: near the float64 truth, and finite;
    True if no truth is known."""
    for position, output in enumerate(found):
        if one.truth is None:
            continue
        truth = one.truth[position]
        if not output.is_floating_point():
            if not torch.equal(output, truth.to(output.dtype)):
                return False
            continue
        if not bool(torch.isfinite(truth).all() and torch.isfinite(output).all()):
            return False
        error, noise = _rms(output.double() - truth), _rms(one.noise[position]) if one.noise else 0.0
        if error > max(CLOSE * _rms(truth), ELEMENT * noise, LEAST):
            return False
    return True


def _laid_out(arena: Arena, task: Task, one: Input, seed: int) -> Layout:
    """Where the tensors of an input for `task` lie in the device's memory (`arena`); the same addresses for
    the same input and seed every time."""
    return lay_out(arena, task.signature, one.workload, random.Random(f"{seed} {one.title}"))


def _bits(values: torch.Tensor) -> torch.Tensor:
    """The bytes of a tensor as a 1-D uint8 tensor, so that two can be compared bit by bit, NaN included."""
    return values.reshape(-1).view(torch.uint8)


def _rms(values: torch.Tensor) -> float:
    return float(values.double().square().mean().sqrt()) if values.numel() else 0.0
