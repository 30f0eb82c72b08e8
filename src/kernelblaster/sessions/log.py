"""The log of a search: it records what was computed and chosen, so that a stopped search can continue, and
informs watchers of the progress."""

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
    """A candidate that is about to be judged as the step `id` of the search. It was made from its parent
    candidate by applying `technique` to a kernel in the performance state named `state`. `predicted` is the
    speedup over the parent that was expected of the technique: 1.2 is 1.2 times as fast."""

    id: StepId
    state: str
    technique: str
    predicted: float
    candidate: Candidate

    @property
    def shown(self) -> dict[str, Any]:
        """This trial as JSON data, which is recorded for people who watch. `code` is the candidate's code;
        `parent` is the `Candidate.digest` of the candidate that it was made from, None if there is none."""
        about: dict[str, Any] = {"id": str(self.id), "state": self.state, "technique": self.technique}
        about |= {"code": self.candidate.code, "parent": self.candidate.parent}
        return about | {"predicted": self.predicted}


@dataclass(frozen=True)
class Progress:
    """A message on the progress of a search, for watchers (functions that are called with progress). They get
    one when a candidate goes to the judge (`phase` is `judging`), when a step has its result (`stepped`, with
    the `step`), and after an iteration (`learned`).

    `evaluations` candidates were judged so far, `seconds` is the time since the search began, and the fields
    that end in `_left` say how much the limits still allow, None without a limit. `id`, `state`, `technique`
    and `predicted` (a speedup over the parent candidate) say what is tried. `result` is what it gained over
    the parent; for a candidate that failed, `why` says what is wrong. `own_us` (of the step's candidate),
    `first_us`, `best_us`, `baseline_us` and `floor_us` are times in us, None until something was timed;
    `modelled`: they come from a model of the GPU, not from a clock.
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
    """Does nothing with `progress`; it is the watcher of a search that nobody watches."""


class Log:
    """The record of one search, which also tells watchers of its progress. `once` records a result as an
    event of the run, so that a continued search need not compute it again. The methods `judging`, `stepped`
    and `learned` each call `watcher` with a `Progress`. The counts, times and limits in it are read from the
    constructor's argument `judging`, which has the evaluations so far. `modelled`: times are not measured,
    but come from the emulator's model of a GPU. `steering` is asked whether a person wants to stop.
    `iteration` is the number of the present iteration, which the session sets; `steps` are the steps so
    far."""

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
        """Returns the result that is recorded in the run under (kind, key). If there is none, calls the
        function `compute`, records its result and returns that. A process that continues the run finds what
        earlier processes recorded. If `lasting`, the record is on the disk when this returns; otherwise a
        power cut may lose it, and it is then computed again. Raises SearchStopped, before anything is
        computed, if a person has asked to stop."""

        def compute_unless_stopped() -> dict[str, Any]:
            self._steering.check()
            return compute()

        return self._run.once(kind, key, compute_unless_stopped, lasting=lasting)

    def judging(self, trial: Trial) -> None:
        """Tells the watcher (the function that is called with progress) that this trial's candidate goes to
        the judge now."""
        self._watcher(self._progress("judging", trial))

    def stepped(self, step: Step) -> None:
        """Adds a step, whose candidate was judged, to `steps`, and tells its result to the watcher (the
        function that is called with progress)."""
        self.steps.append(step)
        self._watcher(self._progress("stepped", step))

    def learned(self) -> None:
        """Tells the watcher (the function that is called with progress) that an iteration has ended and that
        the knowledge base has learned from it."""
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
