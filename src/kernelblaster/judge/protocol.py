"""The interface of judges, whichever process holds the device."""

from collections.abc import Iterator, Sequence
from typing import Protocol

from kernelblaster.devices.specs import GpuSpec
from kernelblaster.records import Candidate, Evaluation, Fitness, Floor, Outcome, Profile, Task
from kernelblaster.records.profile import Depth


class JudgedDevice(Protocol):
    """A description of the device that candidates run on. `modelled`: it has no clock, its times come from a
    model."""

    @property
    def name(self) -> str: ...

    @property
    def spec(self) -> GpuSpec: ...

    @property
    def modelled(self) -> bool: ...


class Judge(Protocol):
    """Judges candidates. `DeviceJudge` holds a device itself, `FleetJudge` asks a process that does, and
    `CachedJudge` reuses the verdicts of another judge. What all of them guarantee is tested by
    testing/judge_contract.py."""

    @property
    def device(self) -> JudgedDevice: ...

    def prepare(self, task: Task) -> tuple[Fitness, Floor]:
        """Fitness and floor (least possible work) of a task. Raises BadTask if it is unfit to be judged."""
        ...

    def evaluate_many(self, jobs: Sequence[tuple[Task, Candidate]]) -> Iterator[Evaluation]:
        """An evaluation for each job, in the order of the jobs, each yielded as soon as it is done."""
        ...

    def confirmed(self, task: Task, candidate: Candidate, evaluation: Evaluation) -> Evaluation:
        """The evaluation of a correct candidate after a check for races and memory order in the emulator:
        with a note, or with the objection as its outcome. Other evaluations are returned unchanged."""
        ...

    def estimate(self, task: Task, candidates: Sequence[Candidate]) -> list[float | None]:
        """Modelled microseconds of each candidate at the primary workload, from the emulator alone, without
        verification; None where it does not compile, fails, or cannot be modelled."""
        ...

    def profile(
        self, task: Task, candidates: Sequence[Candidate], *, depth: Depth = "detailed"
    ) -> list[Profile | Outcome]:
        """For each candidate its profile at the primary workload; for one that fails verification, its
        outcome. `depth` selects how many metrics are collected."""
        ...
