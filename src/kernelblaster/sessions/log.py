"""What a search leaves behind as it goes: records by which it can be continued, and progress to watch."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from kernelblaster.records import Candidate, Step, StepId, StepResult
from kernelblaster.sessions.judging import Judging
from kernelblaster.store.run import Run

Phase = Literal["judging", "stepped", "learned"]


@dataclass(frozen=True)
class Trial:
    """A step that is about to be judged; its fields are those of `Step`."""

    id: StepId
    state: str
    technique: str
    predicted: float
    candidate: Candidate


@dataclass(frozen=True)
class Progress:
    """What a watcher sees: when candidates go to the judge (`judging`, once for each), when a step is
    known (`stepped`: `step` is that step), and after an iteration (`learned`).

    `id`, `state`, `technique` and `predicted` (a speedup) tell what is tried; `result` what it gained over
    the candidate before. Times of the first and the best candidate, the baseline and the floor are in
    microseconds; None as long as nothing was timed; `modelled` says that no clock measured them. What has
    no limit has nothing left to tell: None.
    """

    phase: Phase
    iteration: int
    evaluations: int
    evaluations_left: int
    seconds: float
    id: StepId | None = None
    state: str | None = None
    technique: str | None = None
    predicted: float | None = None
    result: StepResult | None = None
    step: Step | None = None
    best_us: float | None = None
    first_us: float | None = None
    baseline_us: float | None = None
    floor_us: float | None = None
    seconds_left: float | None = None
    gpu_seconds_left: float | None = None
    modelled: bool = False


Watcher = Callable[[Progress], None]


def unwatched(progress: Progress) -> None:
    """Nobody watches."""


class Log:
    """`steps` are those of this run so far."""

    def __init__(self, run: Run, judging: Judging, watcher: Watcher, *, modelled: bool) -> None:
        self._run = run
        self._judging = judging
        self._watcher = watcher
        self._modelled = modelled
        self.iteration = 0
        self.steps: list[Step] = []

    def once(
        self, kind: str, key: str, compute: Callable[[], dict[str, Any]], *, lasting: bool = False
    ) -> dict[str, Any]:
        """What was computed the first time, in this process or in one before it. A power cut may lose it
        unless it is `lasting`: then it is computed again."""
        return self._run.once(kind, key, compute, lasting=lasting)

    def judging(self, trial: Trial) -> None:
        self._watcher(self._progress("judging", trial))

    def stepped(self, step: Step) -> None:
        self.steps.append(step)
        self._watcher(self._progress("stepped", step))

    def learned(self) -> None:
        self._watcher(self._progress("learned", None))

    def _progress(self, phase: Phase, about: Trial | Step | None) -> Progress:
        timings, budget, seconds = self._judging.timings, self._judging.budget, self._judging.seconds
        seconds_left, gpu_seconds_left = budget.seconds_left(seconds)
        step = about if isinstance(about, Step) else None
        return Progress(
            phase=phase,
            iteration=self.iteration,
            evaluations=budget.evaluations,
            evaluations_left=budget.evaluations_left,
            seconds=seconds,
            id=about.id if about else None,
            state=about.state if about else None,
            technique=about.technique if about else None,
            predicted=about.predicted if about else None,
            result=step.result if step else None,
            step=step,
            best_us=min((timing.candidate_us for timing in timings), default=None),
            first_us=timings[0].candidate_us if timings else None,
            baseline_us=timings[0].baseline_us if timings else None,
            floor_us=timings[0].floor_us if timings else None,
            seconds_left=seconds_left,
            gpu_seconds_left=gpu_seconds_left,
            modelled=self._modelled,
        )
