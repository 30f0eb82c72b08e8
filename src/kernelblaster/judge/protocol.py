"""What a search asks of a judge, wherever the device is."""

from collections.abc import Iterator, Sequence
from typing import Protocol

from kernelblaster.devices.specs import GpuSpec
from kernelblaster.records import Candidate, Evaluation, Fitness, Floor, Outcome, Profile, Task
from kernelblaster.records.profile import Depth


class JudgedDevice(Protocol):
    """What is known of the device that candidates run on. `modelled`: it has no clock, times are modelled."""

    @property
    def name(self) -> str: ...

    @property
    def spec(self) -> GpuSpec: ...

    @property
    def modelled(self) -> bool: ...


class Judge(Protocol):
    """Implementations: `DeviceJudge` holds a device, `SharedJudge` asks a process that does, and
    `CachedJudge` gives verdicts of another judge again. tests/judge/test_judge_contract.py holds for all."""

    @property
    def device(self) -> JudgedDevice: ...

    def prepare(self, task: Task) -> tuple[Fitness, Floor]:
        """Fitness and floor of a task; BadTask if it is unfit to be judged."""
        ...

    def evaluate_many(self, jobs: Sequence[tuple[Task, Candidate]]) -> Iterator[Evaluation]:
        """A verdict for each job, in their order, each as soon as it is there."""
        ...

    def confirmed(self, task: Task, candidate: Candidate, evaluation: Evaluation) -> Evaluation:
        """The evaluation of a correct candidate once it was checked for races on the PTX machine too: with
        a note, or with what was found as its outcome. Others are returned as they are."""
        ...

    def profile(
        self, task: Task, candidates: Sequence[Candidate], *, depth: Depth = "detailed"
    ) -> list[Profile | Outcome]:
        """A profile for each candidate; the outcome of one that fails verification in its place."""
        ...
