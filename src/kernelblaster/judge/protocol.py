"""The interface of judges, whichever process holds the device."""

from collections.abc import Iterator, Sequence
from typing import Protocol

from kernelblaster.devices.specs import GpuSpec
from kernelblaster.records import Candidate, Evaluation, Fitness, Floor, Outcome, Profile, Task
from kernelblaster.records.profile import Depth


class JudgedDevice(Protocol):
    """The device that candidates run on. `modelled`: it has no clock, its times come from a model."""

    @property
    def name(self) -> str: ...

    @property
    def spec(self) -> GpuSpec: ...

    @property
    def modelled(self) -> bool: ...


class Judge(Protocol):
    """Judges candidates. Implementations: `DeviceJudge` holds a device, `SharedJudge` asks a process that
    does, and `CachedJudge` reuses the verdicts of another judge. tests/judge/test_judge_contract.py holds for
    all."""

    @property
    def device(self) -> JudgedDevice: ...

    def prepare(self, task: Task) -> tuple[Fitness, Floor]:
        """Fitness and floor of a task; BadTask if it is unfit to be judged."""
        ...

    def evaluate_many(self, jobs: Sequence[tuple[Task, Candidate]]) -> Iterator[Evaluation]:
        """An evaluation for each job in the order of the jobs, each as soon as it is there."""
        ...

    def confirmed(self, task: Task, candidate: Candidate, evaluation: Evaluation) -> Evaluation:
        """The evaluation of a correct candidate after a check for races on the PTX machine: with a note, or
        with the objection as its outcome. Other evaluations are returned unchanged."""
        ...

    def profile(
        self, task: Task, candidates: Sequence[Candidate], *, depth: Depth = "detailed"
    ) -> list[Profile | Outcome]:
        """A profile for each candidate; for one that fails verification, its outcome."""
        ...
