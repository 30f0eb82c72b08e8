"""The candidates of a run as a tree: each with its outcome, why it was tried, and what it changed."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from kernelblaster.errors import StoreError
from kernelblaster.quantities import kind_text, time_text
from kernelblaster.records import Step
from kernelblaster.report.profile_words import Changes, Figures, changes
from kernelblaster.report.run.exchanges import ShownExchange
from kernelblaster.report.run.reasons import Reasons
from kernelblaster.report.run.verdict import has_ended
from kernelblaster.report.source_diff import DiffLine, difference
from kernelblaster.report.trajectory import kernel_figures
from kernelblaster.store.history import History, JudgedCandidate
from kernelblaster.store.run import Run

EVIDENCE_SHOWN = 2000  # letters of what a judge says of a failure
TONES = {"Accepted": "good", "Inconclusive": "idle", "Slower": "idle", "Unsupported": "", "Abandoned": ""}


@dataclass(frozen=True)
class Shown:
    """One entry of the page's tree: a candidate with the step that led to it. `number` is its position in the
    order of judging, None if it was not judged; `parent` that of its parent. `depth` is the distance from the
    root. `state` and the fields after it are empty for a root, to which no step led. `on_way`: it is on the
    path to the best; `taken`: the search continued from it; `differed`: why the gain was not the predicted
    one."""

    number: int | None
    parent: int | None
    depth: int
    title: str
    outcome: str
    tone: str
    speed: str
    gain: str
    predicted: str
    state: str = ""
    what: str = ""
    on_way: bool = False
    best: bool = False
    taken: bool = False
    why: list[str] = field(default_factory=list)
    differed: list[str] = field(default_factory=list)
    evidence: str = ""
    changes: Changes | None = None
    difference: list[DiffLine] = field(default_factory=list)
    exchanges: list[ShownExchange] = field(default_factory=list)


class Tree:
    """Everything that a run tried, as entries for display in depth-first order. `exchanges` are shown with
    the candidates that they are about."""

    def __init__(self, run: Run, history: History, exchanges: Sequence[ShownExchange]) -> None:
        self._run = run
        self._judged = {one.code: one for one in history.judged}
        self._numbers = {code: number for number, code in enumerate(self._judged, 1)}
        self._steps = list(_distinct(Step.model_validate(step) for step in history.steps))
        self._profiles = {e.key: e.data["profile"] for e in run.events if e.kind == "profile"}
        self._best = history.best.code if history.best else None
        self._modelled = kind_text(history.modelled)
        self._unled = "Written anew" if has_ended(history) else "Judged; its step is not recorded yet"
        self._reasons = Reasons(run.events)
        self._exchanges = list(exchanges)
        self._came_from = {step.child: step for step in reversed(self._steps)}
        self._below: dict[str, list[Step]] = {}
        for step in self._steps:
            self._below.setdefault(step.parent, []).append(step)

    def shown(self) -> list[Shown]:
        """All entries, depth first, siblings in the order of judging. To be called once: it takes the
        exchanges out of `others`."""
        on_way = set(self._way())
        entries: list[Shown] = []
        drawn: set[str] = set()
        for code in self._judged:
            if code in self._came_from or code in drawn:
                continue
            drawn.add(code)
            entries.append(self._root(code, code in on_way))
            waiting = [(1, step) for step in reversed(self._below.get(code, ()))]
            while waiting:
                depth, step = waiting.pop()
                first = step.child in self._judged and step.child not in drawn
                entries.append(self._step(step, depth, first and step.child in on_way))
                if first:
                    drawn.add(step.child)
                    waiting += [(depth + 1, one) for one in reversed(self._below.get(step.child, ()))]
        return entries

    @property
    def others(self) -> list[ShownExchange]:
        """Exchanges that belong to no candidate; valid after `shown` was called."""
        return self._exchanges

    def _way(self) -> Iterator[str]:
        """The codes from the best candidate back to its root."""
        seen: set[str] = set()
        at = self._best
        while at is not None and at not in seen:
            seen.add(at)
            yield at
            at = self._came_from[at].parent if at in self._came_from else None

    def _root(self, code: str, on_way: bool) -> Shown:
        """The entry of a candidate that no recorded step led to."""
        judged = self._judged[code]
        number = self._numbers[code]
        return Shown(
            number=number,
            parent=None,
            depth=0,
            title="First candidate" if number == 1 else self._unled,
            outcome=judged.outcome,
            tone=TONES.get(judged.outcome, "bad"),
            speed=self._speed(judged),
            gain="",
            predicted="",
            on_way=on_way,
            best=code == self._best,
            evidence=_evidence(judged),
            exchanges=self._taken_out(f"/{code}", "initial-writer" if number == 1 else None),
        )

    def _step(self, step: Step, depth: int, on_way: bool) -> Shown:
        """The entry of a step and its candidate. `on_way`: it is on the path to the best, and this is the
        candidate's first entry."""
        child, parent = self._judged.get(step.child), self._judged.get(step.parent)
        outcome = child.outcome if child else step.failure or ""
        return Shown(
            number=self._numbers.get(step.child),
            parent=self._numbers.get(step.parent),
            depth=depth,
            title=step.technique,
            outcome=outcome,
            tone=TONES.get(outcome, "bad"),
            speed=self._speed(child) if child else "",
            gain="" if step.speedup is None else f"{step.speedup:.2f}x",
            predicted=f"{step.predicted:.2f}x",
            state=step.state,
            what=self._reasons.what(step.technique),
            on_way=on_way,
            best=on_way and step.child == self._best,
            taken=step.taken,
            why=self._reasons.why(step),
            differed=self._reasons.differed(step),
            evidence=_evidence(child) if child else "",
            changes=self._changes(parent, child),
            difference=self._difference(parent, child),
            exchanges=self._asked_for(step),
        )

    def _speed(self, judged: JudgedCandidate) -> str:
        """Time and speedup over the baseline as text; empty if the candidate was not timed."""
        timing = judged.verdict["timing"]
        if judged.speedup is None or not timing:
            return ""
        us = time_text(timing["candidate_us"], False)
        return f"{us}, {judged.speedup:.2f}x the baseline's speed{self._modelled}"

    def _changes(self, parent: JudgedCandidate | None, child: JudgedCandidate | None) -> Changes | None:
        """How the profile changed from parent to child; None if one of them has no profile."""
        if parent is None or child is None:
            return None
        before, after = self._profile(parent), self._profile(child)
        return changes(_kernels(before), _kernels(after), str(after["tier"])) if before and after else None

    def _profile(self, judged: JudgedCandidate) -> dict[str, Any] | None:
        """The recorded profile of a candidate, from its verdict or a separate event; None if there is
        none."""
        profile: dict[str, Any] | None = judged.verdict.get("profile") or self._profiles.get(judged.code)
        return profile

    def _difference(self, parent: JudgedCandidate | None, child: JudgedCandidate | None) -> list[DiffLine]:
        """The diff of the two sources; empty if one of them is missing."""
        if parent is None or child is None:
            return []
        try:
            return difference(self._run.files.get(parent.source), self._run.files.get(child.source))
        except StoreError:
            return []

    def _asked_for(self, step: Step) -> list[ShownExchange]:
        """The exchanges that produced this candidate, and those about it."""
        written = f"lowerer/{step.parent}/{step.kernel}/{step.technique}"
        return self._taken_out(f"/{step.child}", written, f"lowerer/plain/{step.id}")

    def _taken_out(self, end: str, *begin: str | None) -> list[ShownExchange]:
        """Remove from `others` and return the exchanges whose name (role/key) ends with `end`, equals one of
        the beginnings, or starts with one of them and a slash."""
        beginnings = tuple(text for text in begin if text)
        mine = []
        for one in self._exchanges:
            name = f"{one.role}/{one.key}"
            if name.endswith(end) or any(name == text or name.startswith(f"{text}/") for text in beginnings):
                mine.append(one)
        self._exchanges = [one for one in self._exchanges if one not in mine]
        return mine


def _distinct(steps: Iterator[Step]) -> Iterator[Step]:
    """The steps without repetitions: the same technique between the same two candidates counts once, even if
    several rollouts tried it."""
    seen: set[tuple[str, str, str]] = set()
    for step in steps:
        key = (step.parent, step.child, step.technique)
        if key not in seen:
            seen.add(key)
            yield step


def _kernels(profile: dict[str, Any]) -> list[Figures]:
    """The figures of each kernel of a recorded profile."""
    return [kernel_figures(kernel) for kernel in profile["kernels"]]


def _evidence(judged: JudgedCandidate) -> str:
    """What the judge said about a failed candidate; empty for a correct one."""
    outcome = judged.verdict["outcome"]
    if "speedup" in outcome:
        return ""
    if outcome["kind"] == "TimedOut":
        return f"no answer within {outcome.get('limit_s')} s ({outcome.get('stage')})"
    said = f"{outcome.get('reason', '')}\n{outcome.get('evidence') or outcome.get('log') or ''}".strip()
    return said if len(said) <= EVIDENCE_SHOWN else said[:EVIDENCE_SHOWN] + " ..."
