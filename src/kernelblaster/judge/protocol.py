"""The interface that all judges of candidates have, whether they hold the device in this process or ask
another one."""

from collections.abc import Iterator, Sequence
from typing import Protocol

from kernelblaster.devices.specs import GpuSpec
from kernelblaster.records import Candidate, Evaluation, Fitness, Floor, Outcome, Profile, Task
from kernelblaster.records.profile import Depth


class JudgedDevice(Protocol):
    """The description of the device that candidates run on: `name`, and `spec`, the GPU's data (architecture,
    peak rates). `modelled` is True for the emulator, whose times come from a model and not from a clock."""

    @property
    def name(self) -> str: ...

    @property
    def spec(self) -> GpuSpec: ...

    @property
    def modelled(self) -> bool: ...


class Judge(Protocol):
    """Verifies, times and profiles candidates (CUDA sources for a task). `DeviceJudge` holds a device itself,
    `FleetJudge` asks a process that does, and `CachedJudge` reuses the verdicts of another judge. What all of
    them guarantee is tested by testing/judge_contract.py."""

    @property
    def device(self) -> JudgedDevice: ...

    def prepare(self, task: Task) -> tuple[Fitness, Floor]:
        """Returns (fitness, floor) of a task: the fitness says whether candidates for it can be verified and
        timed, the floor is the least memory traffic and arithmetic that any kernel for it needs. Raises
        BadTask if it is unfit to be judged."""
        ...

    def evaluate_many(self, jobs: Sequence[tuple[Task, Candidate]]) -> Iterator[Evaluation]:
        """Judges several candidates: each of `jobs` is a task and a candidate for it. Yields one evaluation
        for each job, in the order of the jobs, as soon as it is done."""
        ...

    def confirmed(self, task: Task, candidate: Candidate, evaluation: Evaluation) -> Evaluation:
        """Makes the checks that are too costly to be made for every candidate, above all the emulator's
        search for races and memory-order errors, and returns `evaluation` with their results. Each check that
        passes adds a note; one that finds an error replaces the outcome by that error. The evaluation of a
        candidate that is not correct is returned unchanged."""
        ...

    def estimate(self, task: Task, candidates: Sequence[Candidate]) -> list[float | None]:
        """Returns the modelled time in us of each candidate for `task` at the primary workload (the sizes
        that are timed), from the emulator alone and without verification; None where it does not compile,
        fails, or cannot be modelled."""
        ...

    def profile(
        self, task: Task, candidates: Sequence[Candidate], *, depth: Depth = "detailed"
    ) -> list[Profile | Outcome]:
        """Returns for each candidate for `task` its profile at the primary workload (the sizes that are
        timed), or its outcome if it does not compile or fails verification. `depth` says how much is
        collected: "quick" (what performance states are named from), "usual" (also the profiler's advice) or
        "detailed" (also counts by instruction)."""
        ...
