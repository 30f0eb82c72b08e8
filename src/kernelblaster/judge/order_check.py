"""Order check: finds synchronization errors that rarely show on a GPU. The PTX machine (the emulator) runs a
candidate at small workloads and checks every access, the memory order between blocks, warps and dependent
launches, and asynchronous copies that are never waited for."""

import random
import re
import secrets
from collections.abc import Callable
from dataclasses import replace
from itertools import cycle

import torch

from kernelblaster.devices.device import CandidateDied, CandidateHung, GpuFacts
from kernelblaster.devices.device_code import PTX
from kernelblaster.devices.emulated import EmulatedDevice, EmulatedRunner
from kernelblaster.devices.specs import GpuSpec
from kernelblaster.errors import KernelBlasterError
from kernelblaster.judge import order_sizes
from kernelblaster.judge.baseline import Baseline, KernelBaseline, ModuleBaseline
from kernelblaster.judge.compile import Binary, compile_candidate
from kernelblaster.judge.emulate import LARGEST_BYTES, small_workload
from kernelblaster.judge.layout import Layout, lay_out, slot_bytes
from kernelblaster.judge.memory_check import MemoryCheck
from kernelblaster.judge.order_sizes import LaunchedSize
from kernelblaster.judge.profile import filled_layout
from kernelblaster.judge.stop import Stop
from kernelblaster.ptx.machine import Draws, NotEmulated
from kernelblaster.records import Candidate, Evaluation, Rejected, Task, Verification, Workload
from kernelblaster.records.outcome import CORRECT
from kernelblaster.tasks.size_draws import SizeDraws

CHECKED = "memory order: checked on the PTX machine at small workloads"
NOT_CHECKED = "memory order: not checked: "
LEVELS = (7, 1, 4, 2, 6, 3, 5)  # errors of approximate functions: 1 as much as documented, 7 hardly any
# Ranges that one extent is drawn from (least, most, multiple of): several blocks; whole vectors and tiles;
# the primary workload's own.
EXTENTS = ((24, 80, 1), (128, 384, 128), (1 << 40, 1 << 40, 1))
RUNS = 3  # fewest runs, each with another seed
STALE_RUNS = 2
AGREE = 1e-2  # of the largest result: the most that another order of additions changes, in half precision too
# Instructions that the machine lacks and honest candidates use. Any other unknown one in inline assembly is
# rejected: it may be there only to prevent the check.
EXPECTED = re.compile(
    r"(tcgen05|clusterlaunchcontrol|cp\.(reduce\.)?async\.bulk\.(prefetch\.)?tensor|(prefetch\.|fence\.proxy\.)?tensormap)\b"
)
UNKNOWN = re.compile(r"not emulated: (\S+).*in inline assembly|PTX line \d+: .* in inline assembly")


class OrderCheck:
    """Finds races, wrong memory order and out-of-bounds accesses of compiled candidates by running them in
    the emulator (PTX machine); no GPU is used. It does not check whether results are right; verification does
    that. `spec` is the GPU to emulate. `facts()` is called when the first candidate is checked, and returns
    the device attributes that host code sees; if it returns None, those that follow from `spec` are used.
    Whatever hardware leaves open (scheduling, rounding of approximate functions) is drawn at random, so that
    a candidate cannot recognize the emulator by it."""

    def __init__(self, spec: GpuSpec, facts: Callable[[], GpuFacts | None] = lambda: None) -> None:
        self._spec = spec
        self._facts = facts
        self._device: EmulatedDevice | None = None
        self._baselines: dict[str, Baseline] = {}
        self._sizes: dict[str, SizeDraws] = {}

    def look(self, task: Task, binary: Binary) -> Rejected | str:
        """Runs a compiled candidate for `task` (`binary`) in the emulator at small workloads. Returns
        Rejected if the emulator finds an error, else a note in words: what was checked, or why nothing could
        be."""
        try:
            findings, elsewhere = self._findings(task, binary)
        except (KernelBlasterError, CandidateHung) as error:
            return _unchecked(str(error))
        except Stop as stop:
            assert isinstance(stop.outcome, Rejected)
            return stop.outcome
        except CandidateDied as error:
            return Rejected(reason="fails-on-the-machine", evidence=f"right on the GPU, but there: {error}")
        if findings:
            return Rejected(reason=findings[0].split(" ")[0], evidence="\n".join(findings[:5]))
        return (
            f"{CHECKED}, but not as launched for large ones: {', '.join(elsewhere)}" if elsewhere else CHECKED
        )

    def confirmed(self, task: Task, candidate: Candidate, evaluation: Evaluation) -> Evaluation:
        """Checks a correct candidate for races and memory order, and returns its `evaluation` with the
        result: if nothing is wrong, with one more note, which says what was checked; if an error is found,
        with that as its outcome and without a timing. An evaluation is returned unchanged if its candidate is
        not correct, or if it has such a note already."""
        verification = evaluation.verification
        if not isinstance(evaluation.outcome, CORRECT) or verification is None or looked_at(verification):
            return evaluation
        binary = compile_candidate(task, candidate, self._spec.architecture)
        note = self.look(task, binary) if isinstance(binary, Binary) else f"{NOT_CHECKED}{binary.kind}"
        if isinstance(note, Rejected):
            return evaluation.model_copy(update={"outcome": note, "timing": None})
        return evaluation.model_copy(update={"verification": with_note(verification, note)})

    def close(self) -> None:
        """Close the emulator and forget all tasks; a later check starts it again."""
        self._baselines.clear()
        self._sizes.clear()
        if self._device is not None:
            self._device.close()
            self._device = None

    def _findings(self, task: Task, binary: Binary) -> tuple[list[str], list[str]]:
        """Runs a compiled candidate of `task` in the emulator at small sizes: (its findings, one line each;
        names of the kernels that it did not see launched as at the timed sizes). Raises NotEmulated if an
        instruction is missing in the emulator and nothing was found."""
        if self._device is None:
            self._device = EmulatedDevice(self._spec, self._facts())
        device, workloads = self._device, self._workloads(task, binary)
        baseline, signature = self._baselines[task.digest], task.signature
        device.arena(slot_bytes(signature, workloads))
        runner = device.start(binary.path)
        unknown: NotEmulated | None = None
        try:
            layouts = [lay_out(device.arena(), signature, one, random.Random(0)) for one in workloads]
            calls = [
                (one.workload, one.arguments(signature, baseline.at(one.workload).scalars)) for one in layouts
            ]
            primary = order_sizes.primary_call(task, baseline.scalars)
            speaking = order_sizes.SPEAKS.search((binary.path.parent / PTX).read_text()) is not None
            chosen, elsewhere = order_sizes.choose(runner, primary, calls, speaking=speaking)
            runs = (*chosen, *chosen[:1] * max(0, RUNS - len(chosen)))
            for size, level in zip(runs, cycle(LEVELS), strict=False):
                layout = filled_layout(device, task, baseline, size.workload)  # where it was laid out before
                run = _Run(task, runner, layout, baseline.at(size.workload).scalars, size)
                try:
                    findings = run.findings(level)
                except NotEmulated as error:  # other sizes may take another branch
                    unknown = error
                    continue
                if findings:
                    return findings, []
        finally:
            runner.close()
        if unknown is not None:
            raise unknown
        return [], elsewhere

    def _workloads(self, task: Task, binary: Binary) -> list[Workload]:
        """Small workloads (sizes) to choose from, the task's small one first. Also makes the task's baseline,
        which supplies values, and its size draws, once."""
        small = small_workload(task)
        assert self._device is not None
        if task.digest not in self._baselines:
            self._baselines[task.digest] = (
                ModuleBaseline(task, self._device, small=True)
                if task.kind == "module"
                else KernelBaseline(task, self._device, binary.path)
            )
            self._sizes[task.digest] = SizeDraws(
                task, small=True, most_bytes=LARGEST_BYTES, most_stretched=LARGEST_BYTES
            )
        sizes = self._sizes[task.digest]
        # Long rows may take other branches of a kernel: include each extent at the primary workload's value.
        others = [w for extents in EXTENTS for w in sizes.near(*extents)]
        others += sizes.of("few", "long", "above")
        return order_sizes.tried(task, small, sizes.of("stretched"), others)


class _Run:
    """Runs a loaded candidate at one size (`layout`, filled with values) in the emulator and collects what it
    finds wrong."""

    def __init__(
        self, task: Task, runner: EmulatedRunner, layout: Layout, scalars: list[object], size: LaunchedSize
    ) -> None:
        self._signature = task.signature
        self._outputs = task.signature.outputs
        self._runner = runner
        self._layout = layout
        self._arguments = layout.arguments(task.signature, scalars)
        self._most_blocks = size.most_blocks

    def findings(self, level: int) -> list[str]:
        """The emulator's findings in one call, one line each; empty if none. Where some read may be stale,
        further calls are made in which such reads return older values, and their results must agree. `level`
        is the size of errors of approximate functions (1: as documented, 7: hardly any; see
        `Draws.inexact`)."""
        results, findings = self._call(Draws(most_blocks=self._most_blocks, inexact=level, skips=True))
        if findings or not self._runner.doubtful:
            return findings
        for _ in range(STALE_RUNS):
            others, findings = self._call(Draws(inexact=level, skips=True, stale=True))
            if findings:
                return findings
            for tensor, ours, theirs in zip(self._outputs, results, others, strict=True):
                if not _agree(ours, theirs):
                    return [
                        f"memory-order of {tensor.name}: another result where volatile or relaxed reads "
                        "return what was there before a write that no fence and message puts before them"
                    ]
        return []

    def _call(self, draws: Draws) -> tuple[list[torch.Tensor], list[str]]:
        """Run one call in which the emulator behaves as `draws` says, with a new seed: (its outputs,
        findings); no outputs if there are findings. Raises CandidateDied for a CUDA error, Stop if it wrote
        outside its outputs."""
        for tensor in self._outputs:
            self._layout.raw(tensor).zero_()
        self._layout.set_guards()
        check = MemoryCheck(self._layout, self._signature, secrets.randbits(62), protected=True)
        self._runner.draw(replace(draws, seed=secrets.randbits(63)), restored=True)
        report = self._runner.call(self._arguments, scratch_poison=-1, accounting=False)
        if report.findings or report.violations:
            return [], [*report.findings, *(f"contract broken: {one}" for one in report.violations)]
        if report.error:
            raise CandidateDied(report.error)
        check.stop_if_touched()
        return [self._layout.view(tensor).clone() for tensor in self._outputs], []


def _agree(ours: torch.Tensor, theirs: torch.Tensor) -> bool:
    """Whether two results of one output, of calls that may differ in the order of additions, are equal but
    for that (AGREE times the largest element); integers must be equal."""
    if not ours.is_floating_point():
        return torch.equal(ours, theirs)
    ours, theirs = ours.double(), theirs.double()
    finite = torch.isfinite(ours) & torch.isfinite(theirs)
    most = float(ours[finite].abs().max()) if bool(finite.any()) else 0.0
    near = finite & ((ours - theirs).abs() <= AGREE * most)
    return bool((near | (ours == theirs) | (ours.isnan() & theirs.isnan())).all())


def _unchecked(why: str) -> Rejected | str:
    """A note that the check for races was not possible, with the reason `why`; Rejected if the reason is an
    unknown instruction in inline assembly that honest candidates do not need."""
    unknown = UNKNOWN.search(why)
    if unknown is None or EXPECTED.match(unknown.group(1) or ""):
        return f"{NOT_CHECKED}{why}"
    return Rejected(
        reason="unknown-assembly",
        evidence=f"{why}: what it does to memory cannot be checked; do without this instruction",
    )


def with_note(verification: Verification, note: str) -> Verification:
    """Returns a copy of the verification with `note` added to its notes."""
    return verification.model_copy(update={"notes": (*verification.notes, note)})


def looked_at(verification: Verification) -> bool:
    """Whether the verification already has a note of the order check (races and memory order in the
    emulator)."""
    return any(note.startswith("memory order:") for note in verification.notes)
