"""The log of a search: what was computed and chosen, by which it can be continued, and progress for a
watcher."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from kernelblaster.records import Candidate, Step, StepId, StepResult
from kernelblaster.records.outcome import why
from kernelblaster.sessions.judging import Judging
from kernelblaster.sessions.steering import Steering
from kernelblaster.store.run import Run

Phase = Literal["judging", "stepped", "learned"]


@dataclass(frozen=True)
class Trial:
    """A candidate about to be judged as a step of the search: `technique` applied in the performance state
    `state` of the knowledge base, with the `predicted` speedup over the candidate that it was made from."""

    id: StepId
    state: str
    technique: str
    predicted: float
    candidate: Candidate

    @property
    def shown(self) -> dict[str, Any]:
        """This trial as JSON data, which is recorded for those who watch: `code` is its candidate's, `parent`
        the digest of the candidate that it was made from, None if there is none."""
        about: dict[str, Any] = {"id": str(self.id), "state": self.state, "technique": self.technique}
        about |= {"code": self.candidate.code, "parent": self.candidate.parent}
        return about | {"predicted": self.predicted}


@dataclass(frozen=True)
class Progress:
    """What a watcher gets: when a candidate goes to the judge (`judging`), when a step's result is known
    (`stepped`; `step` is set), and after an iteration (`learned`).

    `id`, `state`, `technique` and `predicted` (a speedup) say what is tried, `result` what it gained over the
    parent, and `why` in words what is wrong with a candidate that failed. `own_us` (the step's candidate),
    `first_us`, `best_us`, `baseline_us` and `floor_us` are microseconds, None if there is no such time;
    `modelled`: they come from a model. What is left of a limit is None if there is no limit.
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
    why: str = ""
    step: Step | None = None
    own_us: float | None = None
    best_us: float | None = None
    first_us: float | None = None
    baseline_us: float | None = None
    floor_us: float | None = None
    seconds_left: float | None = None
    gpu_seconds_left: float | None = None
    modelled: bool = False


Watcher = Callable[[Progress], None]


def unwatched(progress: Progress) -> None:
    """Does nothing with `progress`: the watcher of a search that nobody watches."""


class Log:
    """The record of one search. `once` stores what was computed as an event of the run, so that a search
    that is continued gets it back; `judging`, `stepped` and `learned` tell the watcher a `Progress`.
    `iteration` is the present one, set by the session; `steps` are those of the run so far."""

    def __init__(
        self, run: Run, judging: Judging, steering: Steering, watcher: Watcher, *, modelled: bool
    ) -> None:
        self._run = run
        self._steering = steering
        self._judging = judging
        self._watcher = watcher
        self._modelled = modelled
        self.iteration = 0
        self.steps: list[Step] = []

    def once(
        self, kind: str, key: str, compute: Callable[[], dict[str, Any]], *, lasting: bool = False
    ) -> dict[str, Any]:
        """The result of `compute`, computed once and recorded under (kind, key): later calls, also in later
        processes, return the record. Unless `lasting`, a power cut may lose it; then it is computed again.
        Raises SearchStopped, before anything is computed, if a person has asked for that."""

        def compute_unless_stopped() -> dict[str, Any]:
            self._steering.check()
            return compute()

        return self._run.once(kind, key, compute_unless_stopped, lasting=lasting)

    def judging(self, trial: Trial) -> None:
        """Tells whoever watches the search that this trial's candidate goes to the judge now."""
        self._watcher(self._progress("judging", trial))

    def stepped(self, step: Step) -> None:
        """Records that a step was made (its candidate judged) in `steps`, and tells its result to whoever
        watches the search."""
        self.steps.append(step)
        self._watcher(self._progress("stepped", step))

    def learned(self) -> None:
        """Tells whoever watches the search that an iteration has ended, and that its results are in the
        knowledge base."""
        self._watcher(self._progress("learned", None))

    def _progress(self, phase: Phase, about: Trial | Step | None) -> Progress:
        """How far the search is now, as whoever watches it gets it; `phase` is what has just happened,
        `about` the trial or step that it happened to, if any."""
        timings, budget, seconds = self._judging.timings, self._judging.budget, self._judging.seconds
        seconds_left, gpu_seconds_left = budget.seconds_left(seconds)
        step = about if isinstance(about, Step) else None
        evaluation = self._judging.evaluations[step.child] if step else None
        own = evaluation.timing if evaluation else None
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
            why=why(evaluation.outcome) if evaluation else "",
            step=step,
            own_us=own.candidate_us if own else None,
            best_us=min((timing.candidate_us for timing in timings), default=None),
            first_us=timings[0].candidate_us if timings else None,
            baseline_us=timings[0].baseline_us if timings else None,
            floor_us=timings[0].floor_us if timings else None,
            seconds_left=seconds_left,
            gpu_seconds_left=gpu_seconds_left,
            modelled=self._modelled,
        )
