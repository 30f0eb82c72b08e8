"""`RunSummary`: what lists show of a run. It is updated event by event, and only what a list needs is
parsed."""

from typing import Any

from pydantic import BaseModel, ValidationError

from kernelblaster.policies.llm.asker import ANSWER, QUESTION
from kernelblaster.store.events import RunEvent
from kernelblaster.store.history import GOES_ON, RunState, limit_of
from kernelblaster.store.steering import STEERED, STOPPED

POINTS = 128  # of a sparkline, at most


class _Speedup(BaseModel):
    estimate: float


class _Outcome(BaseModel):
    kind: str
    speedup: _Speedup | None = None


class _Timing(BaseModel):
    candidate_us: float
    baseline_us: float
    floor_us: float
    modelled: bool = False


class _Verdict(BaseModel):
    outcome: _Outcome
    timing: _Timing | None = None
    device: str = ""
    device_seconds: float = 0.0


class _Search(BaseModel):
    evaluations: int | None = None


class _Data(BaseModel):
    """The fields of an event's data that a summary uses; all others are skipped while parsing."""

    task: str | None = None
    name: str | None = None
    job: str | None = None
    search: _Search | None = None
    models: Any = None
    evaluation: _Verdict | None = None
    steps: list[Any] = []
    commands: list[dict[str, Any]] = []
    why: str | None = None


class ParsedEvent(BaseModel):
    """An event of a run, with only that part of its data that a summary needs. The fields are those of
    `RunEvent`: `number` in the log, `at` (seconds since 1970), `after` (seconds since the log was opened),
    `kind` and `key`."""

    number: int
    at: float
    after: float | None = None
    kind: str
    key: str = ""
    data: _Data = _Data()


def parse_event(text: bytes) -> ParsedEvent:
    """Returns the event in `text`, a line of a run's log. If the event's data has an unexpected form, such as
    one of a later version, the result has no data. Raises ValueError if the line is no event."""
    try:
        return ParsedEvent.model_validate_json(text)
    except ValidationError:
        event = RunEvent.model_validate_json(text)
        return ParsedEvent(
            number=event.number, at=event.at, after=event.after, kind=event.kind, key=event.key
        )


class RunSummary:
    """A run as a line of a list shows it, computed from its events one by one as they are added. Times are in
    microseconds, None until something was timed. `begun` and `last` are seconds since 1970; `seconds` is for
    how long processes worked on the run.

    `series` has the time of each candidate in the order of judging, None for one that is not correct; with
    more than 128 candidates (POINTS), each entry is the best of several neighbours. `busy` has a pair for
    each verdict: when it was recorded (seconds since 1970), and for how many seconds it needed the device.
    """

    def __init__(self) -> None:
        self.task = ""
        self.job = ""
        self.device = ""
        self.begun: float | None = None
        self.last: float | None = None
        self.seconds = 0.0
        self.judged = self.steps = self.failed = 0
        self.limit: int | None = None
        self.best_us: float | None = None
        self.best_speedup: float | None = None
        self.first_us: float | None = None
        self.baseline_us: float | None = None
        self.floor_us: float | None = None
        self.modelled = False
        self.with_model = False
        self.asking = ""
        self.stopped = ""
        self.series: list[float | None] = []
        self.busy: list[tuple[float, float]] = []
        self.spans: list[tuple[float, float]] = []
        self.last_kind = ""
        self._each = 1
        self._partial: list[float | None] = []
        self._process_s = 0.0
        self._ended = ""

    def add(self, event: ParsedEvent) -> None:
        """Updates the summary by the run's next event: counts, best time, state. Events must come in the
        order of the log."""
        data = event.data
        self._count_time(event)
        self.last_kind = event.kind
        if event.kind in GOES_ON:
            self._ended = self.stopped = ""
        match event.kind:
            case "created":
                self.task, self.job = data.task or "", data.job or ""
                self.limit = limit_of({"search": data.search.model_dump()}) if data.search else None
                self.with_model = bool(data.models)
            case "device":
                self.device = data.name or ""
            case "evaluation" if data.evaluation is not None:
                self._judge(event.at, data.evaluation)
            case "steps":
                self.steps += len(data.steps)
            case "finished" | "results":
                self._ended = "finished" if event.kind == "finished" else self._ended or "stopped"
            case kind if kind == STOPPED:
                self.stopped = data.why or "stopped"
            case kind if kind == STEERED:
                self._steer(data.commands)
            case kind if kind in (QUESTION, ANSWER):
                self.asking = event.key.partition("/")[0] if kind == QUESTION else ""

    def state(self, writer: int | None) -> RunState:
        """Returns "running" if `writer` is not None: it is the id of the process that works on the run.
        Otherwise "finished", "stopped" (ended before its limits) or "interrupted" (its process was lost)."""
        if writer is not None:
            return "running"
        if self._ended == "finished":
            return "finished"
        return "stopped" if self.stopped or self._ended else "interrupted"

    @property
    def points(self) -> list[float | None]:
        """The times in microseconds to draw in the small plot of a run, in the order of judging: the entries
        of `series`, each the best of equally many candidates. The latest candidates, while too few for an
        entry, add one point: the best of their times. None where no candidate is correct."""
        return [*self.series, _best(self._partial)] if self._partial else self.series

    @property
    def points_allowed(self) -> int | None:
        """How many points the small plot of a run will have when all candidates that may be judged are
        judged; None if their number has no limit."""
        return None if self.limit is None else -(-self.limit // self._each)

    def _count_time(self, event: ParsedEvent) -> None:
        """Add the time worked since the last event to `seconds`. `event.after` is in seconds from the start
        of the process that wrote the event; if it is smaller than before, another process has continued the
        run, and a new span begins."""
        if self.begun is None:
            self.begun = event.at
        self.last = event.at
        after = event.after or 0.0
        if after < self._process_s or not self.spans:
            self.spans.append((event.at - after, event.at))
            self._process_s = 0.0
        self.seconds += after - self._process_s
        self._process_s = after
        self.spans[-1] = (self.spans[-1][0], event.at)
        del self.spans[:-POINTS]

    def _judge(self, at: float, verdict: _Verdict) -> None:
        """Takes an evaluation into the summary: counts the candidate, and updates best time, speedup and
        device use. `at` is its time in seconds since 1970."""
        self.judged += 1
        self.device = self.device or verdict.device
        self.busy.append((at, verdict.device_seconds))
        del self.busy[: -8 * POINTS]
        timing, speedup = verdict.timing, verdict.outcome.speedup
        us = timing.candidate_us if timing and speedup else None
        self.failed += us is None
        if timing and speedup and us is not None:
            self.modelled = self.modelled or timing.modelled
            self.baseline_us, self.floor_us = timing.baseline_us, timing.floor_us
            self.first_us = self.first_us or us
            if self.best_speedup is None or speedup.estimate > self.best_speedup:
                self.best_us, self.best_speedup = us, speedup.estimate
        self._partial.append(us)
        if len(self._partial) == self._each:
            self.series.append(_best(self._partial))
            self._partial = []
        if len(self.series) > POINTS:
            self.series = [_best(self.series[at : at + 2]) for at in range(0, len(self.series), 2)]
            self._each *= 2

    def _steer(self, commands: list[dict[str, Any]]) -> None:
        """Takes commands that the search obeyed into the summary: a new limit of candidates replaces the old
        one."""
        for command in commands:
            action = command.get("action")
            if isinstance(action, dict) and isinstance(action.get("evaluations"), int):
                self.limit = action["evaluations"]


def _best(times: list[float | None]) -> float | None:
    """The smallest of these times; None if all of them are None."""
    return min((us for us in times if us is not None), default=None)
