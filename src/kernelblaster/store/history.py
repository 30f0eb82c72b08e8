"""The history of a run: what was judged, which was best, and which steps led to it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from pydantic import TypeAdapter

from kernelblaster.errors import StoreError
from kernelblaster.records import Candidate, Evaluation, Outcome, Step
from kernelblaster.records.outcome import why
from kernelblaster.store.events import RunEvent
from kernelblaster.store.run import ReadableRun
from kernelblaster.store.steering import STOPPED

_outcome: TypeAdapter[Outcome] = TypeAdapter(Outcome)
RunState = Literal["running", "finished", "stopped", "interrupted"]
UNLIMITED = 1 << 30  # candidates, as recorded: whoever writes them decides when to stop
GOES_ON = {"theta", "choice", "batch", "evaluation"}  # kinds of events by which a search goes on


@dataclass(frozen=True)
class JudgedCandidate:
    """One candidate of a run with its verdict (an Evaluation as JSON). `code` is the digest of what is
    compiled: its source and macro definitions; `source` is the name of its text in the run's files."""

    code: str
    source: str
    verdict: dict[str, Any]

    @property
    def evaluation(self) -> Evaluation:
        return Evaluation.model_validate(self.verdict)

    @property
    def outcome(self) -> str:
        """What the judge decided, as the name of the outcome: "Accepted", "Slower", "Incorrect", ..."""
        return str(self.verdict["outcome"]["kind"])

    @property
    def why(self) -> str:
        """Why the candidate is not correct, in a line; empty if it is."""
        return why_of(self.verdict)

    @property
    def speedup(self) -> float | None:
        """How many times as fast as the baseline the judge found the candidate; None if it is not correct."""
        interval = self.verdict["outcome"].get("speedup")
        return None if interval is None else float(interval["estimate"])


class History:
    """What the events of a run tell about it, finished or not; later events are not seen. `about` is the data
    of its first event: task and settings. `judged` are the candidates in the order of judging. `parsed` saves
    time for a caller that makes a new History whenever a run has grown: pass the same dict each time, empty
    at first. It keeps the steps of each event, by the event's number, so that they are parsed once."""

    def __init__(self, run: ReadableRun, parsed: dict[int, list[Step]] | None = None) -> None:
        self._run = run
        self._parsed = {} if parsed is None else parsed
        self.name = run.name
        self.about: dict[str, Any] = run.events[0].data if run.events else {}
        self.judged = [
            JudgedCandidate(e.key, e.data["source"], e.data["evaluation"])
            for e in run.events
            if e.kind == "evaluation"
        ]
        self.finished = conclusion(run.events, "finished") is not None
        self._results = conclusion(run.events, "results")
        self._stopped = conclusion(run.events, STOPPED)

    @property
    def stopped(self) -> str:
        """Why the search ended before its limits (a person, a budget for models), in words; empty if it did
        not, or has been continued since."""
        return str((self._stopped or {}).get("why", ""))

    def state(self, writer: int | None) -> RunState:
        """The state of the run. `writer` is the id of the process that works on it, None if none does. With a
        writer it is "running". Otherwise it is "finished" if the search came to its end, "stopped" if it
        ended before its limits, and "interrupted" if its process was lost."""
        if writer is not None:
            return "running"
        if self.finished:
            return "finished"
        return "stopped" if self.stopped or self.learned is not None else "interrupted"

    @property
    def limit(self) -> int | None:
        """The most candidates that the search was asked to judge when it began. None if there is no limit,
        which is so where a person or an agent writes the candidates."""
        return limit_of(self.about)

    @property
    def task(self) -> str:
        return str(self.about.get("task", "?"))

    @property
    def first(self) -> JudgedCandidate | None:
        """The first correct candidate, where the search began. While no candidate is correct, the first that
        was judged; None if none was."""
        correct = (judged for judged in self.judged if judged.speedup is not None)
        return next(correct, self.judged[0] if self.judged else None)

    @cached_property
    def best(self) -> JudgedCandidate | None:
        """The best candidate: the one recorded as the result if the run has ended, else the fastest correct
        one so far. None if no candidate is correct."""
        for judged in self.judged:
            if self._results and judged.code == self._results["best"]:
                return judged
        correct = [judged for judged in self.judged if judged.speedup is not None]
        return max(correct, key=lambda judged: judged.speedup or 0.0, default=None)

    @property
    def modelled(self) -> bool:
        """Whether the run's times come from a model of the GPU, because it was made without one, and not from
        a clock."""
        timings = (judged.verdict.get("timing") for judged in self.judged)
        return any(timing and timing.get("modelled") for timing in timings)

    @property
    def applied(self) -> tuple[str, ...]:
        """The techniques that led to the best candidate; empty until the run has ended."""
        return tuple(self._results["applied"]) if self._results else ()

    @cached_property
    def steps(self) -> list[Step]:
        """All steps of the search recorded so far (each is a technique applied to a candidate, with its
        result), in the order of judging."""
        recorded = [event for event in self._run.events if event.kind == "steps"]
        for event in recorded:
            if event.number not in self._parsed:
                self._parsed[event.number] = [Step.model_validate(step) for step in event.data["steps"]]
        return [step for event in recorded for step in self._parsed[event.number]]

    @property
    def learned(self) -> dict[str, Any] | None:
        """What the run changed in the knowledge base, as JSON data: its version before ("from") and after
        ("to"); the names of added performance "states"; the changed "techniques" with their scores before and
        after; the "reasons" that were found for surprising results; and the recorded changes ("events"). None
        until the run has ended."""
        return self._results["learned"] if self._results else None

    def source_of(self, judged: JudgedCandidate) -> str:
        """Returns the CUDA source of a judged candidate. Raises StoreError if its file is missing or was
        changed."""
        return self._run.files.get(judged.source)

    def best_candidate(self) -> tuple[Candidate, Evaluation]:
        """Returns the best candidate, ready to be judged again, and its evaluation. Raises StoreError if no
        candidate is correct, or the source's file is missing or was changed."""
        best = self.best
        if best is None:
            raise StoreError(f"{self.name}: has no correct candidate yet.")
        evaluation = best.evaluation
        return Candidate(
            source=self.source_of(best), origin=f"run {self.name}", defines=evaluation.defines
        ), evaluation


def limit_of(about: Mapping[str, Any]) -> int | None:
    """Returns the most candidates that a search may judge, from `about`, the data of its run's first event;
    None without a limit."""
    limit = (about.get("search") or {}).get("evaluations")
    return None if limit is None or limit >= UNLIMITED else int(limit)


def written_by_others(about: Mapping[str, Any]) -> bool:
    """Returns whether an agent or a user's program writes the candidates of a run, so that there is no search
    to stop, steer or resume. `about` is the data of the run's first event."""
    return ((about.get("search") or {}).get("evaluations") or 0) >= UNLIMITED


def why_of(verdict: dict[str, Any]) -> str:
    """Returns in one line why the recorded `verdict` is a failure; empty if the candidate is correct."""
    return why(_outcome.validate_python(verdict["outcome"]))


def conclusion(events: Sequence[RunEvent], kind: str) -> dict[str, Any] | None:
    """Returns the data of the latest event of this `kind`, which is a kind of event by which a search ends,
    like "finished". None if there is none. None also if the search was continued after that event, for
    example because its budget was raised."""
    for event in reversed(events):
        if event.kind == kind:
            return event.data
        if event.kind in GOES_ON:
            break
    return None
