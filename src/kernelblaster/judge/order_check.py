"""What hardly ever shows on a GPU: the PTX machine runs a candidate at small workloads and checks every
access, the order of memory between blocks, warps and dependent launches, and copies that nobody awaits."""

import random

from kernelblaster.devices.device import CandidateDied, CandidateHung, GpuFacts
from kernelblaster.devices.emulated import EmulatedDevice
from kernelblaster.devices.specs import GpuSpec
from kernelblaster.errors import KernelBlasterError
from kernelblaster.judge.baseline import Baseline, KernelBaseline, ModuleBaseline
from kernelblaster.judge.compile import Binary, compile_candidate
from kernelblaster.judge.emulate import LARGEST_BYTES, small_workload
from kernelblaster.judge.layout import slot_bytes
from kernelblaster.judge.profile import filled_layout
from kernelblaster.records import Candidate, Evaluation, Rejected, Task, Verification
from kernelblaster.records.outcome import CORRECT
from kernelblaster.tasks.size_draws import SizeDraws

CHECKED = "memory order: checked on the PTX machine at small workloads"
NOT_CHECKED = "memory order: not checked: "
OTHERS = 2  # drawn sizes of each sort beside the small workload


class OrderCheck:
    """Looks at candidates for the GPU `spec`, of which host code is told the `facts`, without using it. It
    says nothing about results, which a GPU has compared already."""

    def __init__(self, spec: GpuSpec, facts: GpuFacts | None = None) -> None:
        self._spec = spec
        self._facts = facts
        self._device: EmulatedDevice | None = None
        self._baselines: dict[str, Baseline] = {}
        self._sizes: dict[str, SizeDraws] = {}

    def look(self, task: Task, binary: Binary) -> Rejected | str:
        """What the machine holds against a candidate; else a note on what was checked, or why it was not."""
        try:
            findings = self._findings(task, binary)
        except (KernelBlasterError, CandidateHung) as error:
            return f"{NOT_CHECKED}{error}"
        except CandidateDied as error:
            return Rejected(reason="fails-on-the-machine", evidence=f"right on the GPU, but there: {error}")
        if findings:
            return Rejected(reason=findings[0].split(" ")[0], evidence="\n".join(findings[:5]))
        return CHECKED

    def confirmed(self, task: Task, candidate: Candidate, evaluation: Evaluation) -> Evaluation:
        """The evaluation of a correct candidate with the machine's note; or with its objection as outcome."""
        verification = evaluation.verification
        if not isinstance(evaluation.outcome, CORRECT) or verification is None or looked_at(verification):
            return evaluation
        binary = compile_candidate(task, candidate, self._spec.architecture)
        found = self.look(task, binary) if isinstance(binary, Binary) else f"{NOT_CHECKED}{binary.kind}"
        if isinstance(found, Rejected):
            return evaluation.model_copy(update={"outcome": found, "timing": None})
        return evaluation.model_copy(update={"verification": with_note(verification, found)})

    def close(self) -> None:
        if self._device is not None:
            self._device.close()
            self._device = None

    def _findings(self, task: Task, binary: Binary) -> list[str]:
        workload = small_workload(task)
        if self._device is None:
            self._device = EmulatedDevice(self._spec, self._facts)
        device = self._device
        if task.digest not in self._baselines:
            self._baselines[task.digest] = (
                ModuleBaseline(task, device, small=True)
                if task.kind == "module"
                else KernelBaseline(task, device, binary.path)
            )
            self._sizes[task.digest] = SizeDraws(task, small=True, most_bytes=LARGEST_BYTES)
        baseline = self._baselines[task.digest]
        # Long rows take other ways through a kernel: one extent as large as the primary one's, too.
        sizes = self._sizes[task.digest]
        workloads = [workload]
        for drawn in (sizes.of("stretched"), sizes.of("few", "long", "above")):
            workloads += random.sample(drawn, min(OTHERS, len(drawn)))
        device.arena(slot_bytes(task.signature, workloads))
        runner = device.start(binary.path)
        try:
            for size in [workload, *workloads]:
                layout = filled_layout(device, task, baseline, size)
                arguments = layout.arguments(task.signature, baseline.at(size).scalars)
                report = runner.call(arguments, scratch_poison=-1, accounting=False)
                if report.findings:
                    return list(report.findings)
                if report.error:
                    raise CandidateDied(report.error)
        finally:
            runner.close()
        return []


def with_note(verification: Verification, note: str) -> Verification:
    return verification.model_copy(update={"notes": (*verification.notes, note)})


def looked_at(verification: Verification) -> bool:
    """Whether the machine has had its say already."""
    return any(note.startswith("memory order:") for note in verification.notes)
