"""What hardly ever shows on a GPU: the PTX machine runs a candidate at the small workload and checks every
access, the order of memory between blocks, warps and dependent launches, and copies that nobody awaits."""

from kernelblaster.devices.emulated import EmulatedDevice
from kernelblaster.devices.specs import GpuSpec
from kernelblaster.errors import BadTask
from kernelblaster.judge.compile import Binary, compile_candidate
from kernelblaster.judge.judge import Judge, Options
from kernelblaster.records import Candidate, Evaluation, Rejected, Task, Unsupported, Verification
from kernelblaster.records.outcome import CORRECT

CHECKED = "memory order: checked on the PTX machine at the small workload"
NOT_CHECKED = "memory order: not checked: "


class OrderCheck:
    """Looks at candidates for the GPU `spec` without using it. Tasks are prepared once each."""

    def __init__(self, spec: GpuSpec) -> None:
        self._spec = spec
        self._judge: Judge | None = None

    def look(self, task: Task, binary: Binary) -> Rejected | str:
        """What the machine holds against a candidate; else a note on what was checked, or why it was not."""
        if self._judge is None:
            self._judge = Judge(EmulatedDevice(self._spec), Options())
        try:
            outcome = self._judge.check_binary(task, binary).outcome
        except BadTask as error:
            return f"{NOT_CHECKED}{error}"
        if isinstance(outcome, Unsupported):
            return f"{NOT_CHECKED}{outcome.reason}"
        return outcome if isinstance(outcome, Rejected) else CHECKED

    def confirmed(self, task: Task, candidate: Candidate, evaluation: Evaluation) -> Evaluation:
        """The evaluation of a correct candidate with the machine's note; or with its objection as outcome."""
        verification = evaluation.verification
        if not isinstance(evaluation.outcome, CORRECT) or verification is None:
            return evaluation
        binary = compile_candidate(task, candidate, self._spec.architecture)
        found = self.look(task, binary) if isinstance(binary, Binary) else f"{NOT_CHECKED}{binary.kind}"
        if isinstance(found, Rejected):
            return evaluation.model_copy(update={"outcome": found, "timing": None})
        return evaluation.model_copy(update={"verification": with_note(verification, found)})

    def close(self) -> None:
        if self._judge is not None:
            self._judge.close()
            self._judge.device.close()
            self._judge = None


def with_note(verification: Verification, note: str) -> Verification:
    return verification.model_copy(update={"notes": (*verification.notes, note)})
