"""The candidates of a run as a tree: each with its outcome, why it was tried, and what it changed.

    with open_run(root, "last") as run:
        tree = Tree(run, History(run), exchanges_of(run.events))
        for row in tree.rows:  # one line for each candidate
            detail = tree.detail(row.id)  # what is shown when the line is unfolded

`History(run)` reads the verdicts of the run, `exchanges_of` the questions to language models and their
answers.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import log2
from typing import Any

from kernelblaster.quantities import kind_text, time_text
from kernelblaster.records import Step
from kernelblaster.report.kernel_figures import kernel_figures
from kernelblaster.report.profile_words import Changes, Figures, changes
from kernelblaster.report.run.exchanges import ShownExchange
from kernelblaster.report.run.reasons import Reasons
from kernelblaster.report.run.verdict import has_ended
from kernelblaster.report.table import tone_of
from kernelblaster.store.events import RunEvent
from kernelblaster.store.history import History, JudgedCandidate
from kernelblaster.store.run import ReadableRun

EVIDENCE_SHOWN = 2000  # letters of what a judge says of a failure
JUDGING, NOT_JUDGED = "judging", "not judged"  # in the place of an outcome
TONES = {"Accepted": "good", "Inconclusive": "idle", "Slower": "idle", "Unsupported": "", "Abandoned": ""}
TONES |= {JUDGING: "busy", NOT_JUDGED: ""}


@dataclass(frozen=True)
class Gauge:
    """Where a step's predicted and measured speedups are drawn: positions on a logarithmic scale that is 84
    units wide. 2 is 0.25x or less, 42 is 1x, 82 is 4x or more. `measured` is None if nothing was measured."""

    predicted: float
    measured: float | None


@dataclass(frozen=True)
class StepRow:
    """One line of the tree of a run's candidates: a candidate, and the step that led to it, as texts. `title`
    names the step's technique; `predicted` is the gain that was expected, and `gauge` shows it beside the
    measured gain.

    `id` is unique on the page. `number` is the candidate's place in the order of judging, from 1, None if it
    was not judged. `parent` is the number of the candidate it was made from. `depth` is the number of steps
    from the root. A root was made by no step, so it has no gain, prediction and performance state. `speed` is
    the candidate's time and its speedup over the baseline; `gain` is its speedup over the parent; `tone` and
    `gain_tone` are CSS classes that colour outcome and gain. `on_way`: the candidate is on the path to the
    best one; `taken`: the search continued from it.
    """

    id: str
    number: int | None
    parent: int | None
    depth: int
    title: str
    outcome: str
    tone: str
    speed: str
    gain: str = ""
    gain_tone: str = ""
    predicted: str = ""
    gauge: Gauge | None = None
    state: str = ""
    on_way: bool = False
    best: bool = False
    taken: bool = False


@dataclass(frozen=True)
class StepDetail:
    """What a line of the tree shows when the reader unfolds it. An empty text or list means that nothing is
    known.

    `what`: what the step's technique does. `why`: why it was tried. `differed`: why its gain was not the
    predicted one. `evidence`: what the judge said of a failure. `changes`: how the profile changed. `before`
    and `after`: the files of the run with the sources before and after the step. `exchanges`: the questions
    to language models about it.

    The last three are about the step's entry in a knowledge base. `known` names the entry's performance state
    and technique, `known_href` is its address, `knowledge` the name of the knowledge base.
    """

    what: str = ""
    why: list[str] = field(default_factory=list)
    differed: list[str] = field(default_factory=list)
    evidence: str = ""
    changes: Changes | None = None
    before: str = ""
    after: str = ""
    exchanges: list[ShownExchange] = field(default_factory=list)
    known: str = ""
    known_href: str = ""
    knowledge: str = ""


@dataclass(frozen=True)
class _Link:
    """An edge of the tree of candidates, from one candidate to another, both by their code: a recorded step,
    or a trial that the judge is still busy with (`step` None). `speedup` over the first is None if it failed
    or is not judged yet."""

    id: str
    state: str
    technique: str
    predicted: float
    parent: str
    child: str
    speedup: float | None
    step: Step | None


@dataclass(frozen=True)
class _Entry:
    """A line of the tree as it is made: the row to show, the code (a hash) of its candidate, and the step
    that led to it (None for a root)."""

    row: StepRow
    code: str
    link: _Link | None


class Tree:
    """Everything that `run` tried, as lines of a tree; `history` has its steps and evaluations. Each
    candidate is below the one that it was made from; candidates of one parent are in the order of judging.
    `exchanges` are questions to language models with answers. Each is shown with the candidate that it is
    about; `others` are those about none. `running`: a process is working on the run, so candidates without a
    verdict are shown as being judged."""

    def __init__(
        self,
        run: ReadableRun,
        history: History,
        exchanges: Sequence[ShownExchange] = (),
        *,
        running: bool = False,
    ) -> None:
        self._awaited = JUDGING if running else NOT_JUDGED
        self._judged = {one.code: one for one in history.judged}
        self._numbers = {code: number for number, code in enumerate(self._judged, 1)}
        self._links = [*_distinct(history.steps), *self._pending(run.events)]
        self._profiles = {e.key: e.data["profile"] for e in run.events if e.kind == "profile"}
        self._figures: dict[str, list[Figures]] = {}
        self._best = history.best.code if history.best else None
        self._modelled = kind_text(history.modelled)
        self._unled = "Written anew" if has_ended(history) else "Judged; its step is not recorded yet"
        self._reasons = Reasons(run.events)
        self._exchanges = list(exchanges)
        self._came_from = {link.child: link for link in reversed(self._links)}
        self._below: dict[str, list[_Link]] = {}
        for link in self._links:
            self._below.setdefault(link.parent, []).append(link)

    @property
    def rows(self) -> list[StepRow]:
        return [entry.row for entry in self._entries.values()]

    def detail(self, id_: str) -> StepDetail:
        """Returns everything that is shown when the line with the id `id_` is opened: why the step was tried,
        what changed, questions to models. Raises KeyError if there is no such line."""
        entry = self._entries[id_]
        child, link = self._judged.get(entry.code), entry.link
        mine = self._assigned.get(id_, [])
        evidence = _evidence(child) if child else ""
        if link is None:
            return StepDetail(evidence=evidence, exchanges=mine)
        parent = self._judged.get(link.parent)
        return StepDetail(
            what=self._reasons.what(link.technique),
            why=self._reasons.why(link.step) if link.step else [],
            differed=self._reasons.differed(link.step) if link.step else [],
            evidence=evidence,
            changes=self._changes(parent, child),
            before=parent.source if parent else "",
            after=child.source if child else "",
            exchanges=mine,
            known=f"{link.technique} in {link.state}" if link.state else "",
        )

    @property
    def others(self) -> list[ShownExchange]:
        """Those questions to language models, with their answers, that are about no candidate of the run."""
        mine = {one.name for some in self._assigned.values() for one in some}
        return [one for one in self._exchanges if one.name not in mine]

    @cached_property
    def _entries(self) -> dict[str, _Entry]:
        """All lines of the tree by their ids, in the order of display: each candidate below the one that it
        was made from."""
        on_way = set(self._way())
        entries: list[_Entry] = []
        drawn: set[str] = set()
        for code in self._judged:
            if code in self._came_from or code in drawn:
                continue
            drawn.add(code)
            entries.append(_Entry(self._root(code, code in on_way), code, None))
            waiting = [(1, link) for link in reversed(self._below.get(code, ()))]
            while waiting:
                depth, link = waiting.pop()
                first = link.child in self._judged and link.child not in drawn
                row = self._row(link, depth, first and link.child in on_way)
                entries.append(_Entry(row, link.child, link))
                if first:
                    drawn.add(link.child)
                    waiting += [(depth + 1, one) for one in reversed(self._below.get(link.child, ()))]
        found: dict[str, _Entry] = {}
        for entry in entries:
            unique = entry
            if entry.row.id in found:
                unique = replace(entry, row=replace(entry.row, id=f"{entry.row.id}-{len(found)}"))
            found[unique.row.id] = unique
        return found

    def _pending(self, events: Sequence[RunEvent]) -> list[_Link]:
        """Trials that the judge has been given but that are in no recorded step yet, so that they can be
        shown as being judged."""
        trials: list[dict[str, Any]] = []
        for event in reversed(events):
            if event.kind in ("steps", "finished", "results"):
                break
            if event.kind == "batch":
                trials = [*event.data.get("trials", ()), *trials]
        codes = {one.verdict.get("candidate"): one.code for one in self._judged.values()}
        return [
            _Link(
                id=str(one["id"]),
                state=str(one["state"]),
                technique=str(one["technique"]),
                predicted=float(one["predicted"]),
                parent=codes[one["parent"]],
                child=str(one["code"]),
                speedup=self._ratio(codes[one["parent"]], str(one["code"])),
                step=None,
            )
            for one in trials
            if one.get("parent") in codes
        ]

    def _ratio(self, parent: str, child: str) -> float | None:
        """How many times as fast as the candidate `parent` the candidate `child` is (both by code); None if
        one is not correct or not judged."""
        one, other = (
            self._judged[code].speedup if code in self._judged else None for code in (child, parent)
        )
        return one / other if one and other else None

    def _way(self) -> Iterator[str]:
        """Yields the codes of the candidates on the path to the best, from the best back to the first."""
        seen: set[str] = set()
        at = self._best
        while at is not None and at not in seen:
            seen.add(at)
            yield at
            at = self._came_from[at].parent if at in self._came_from else None

    def _root(self, code: str, on_way: bool) -> StepRow:
        """The line of the tree for a candidate that was not made from another one, such as the search's first
        candidate."""
        judged = self._judged[code]
        number = self._numbers[code]
        return StepRow(
            id=f"candidate-{number}",
            number=number,
            parent=None,
            depth=0,
            title="First candidate" if number == 1 else self._unled,
            outcome=judged.outcome,
            tone=TONES.get(judged.outcome, "bad"),
            speed=self._speed(judged),
            on_way=on_way,
            best=code == self._best,
        )

    def _row(self, link: _Link, depth: int, on_way: bool) -> StepRow:
        """The line of the tree for a step or trial (`link`) and its candidate, `depth` steps below the root.
        `on_way`: it is on the path to the best, and this is the candidate's first line."""
        child = self._judged.get(link.child)
        failure = link.step.failure if link.step else None
        outcome = child.outcome if child else failure or self._awaited
        measured = None if link.speedup is None else _gauge_position(link.speedup)
        return StepRow(
            id=f"step-{link.id.replace('/', '-').replace('.', '-')}",
            number=self._numbers.get(link.child),
            parent=self._numbers.get(link.parent),
            depth=depth,
            title=link.technique,
            outcome=outcome,
            tone=TONES.get(outcome, "bad"),
            speed=self._speed(child) if child else "",
            gain="" if link.speedup is None else f"{link.speedup:.2f}x",
            gain_tone=tone_of(link.speedup),
            predicted=f"{link.predicted:.2f}x",
            gauge=Gauge(_gauge_position(link.predicted), measured),
            state=link.state,
            on_way=on_way,
            best=on_way and link.child == self._best,
            taken=link.step is not None and link.step.taken,
        )

    def _speed(self, judged: JudgedCandidate) -> str:
        """A candidate's time and its speedup over the baseline, as text; empty if it was not timed."""
        timing = judged.verdict["timing"]
        if judged.speedup is None or not timing:
            return ""
        return f"{time_text(timing['candidate_us'], False)}, {judged.speedup:.2f}x{self._modelled}"

    def _changes(self, parent: JudgedCandidate | None, child: JudgedCandidate | None) -> Changes | None:
        """How the profiler's metrics changed from one candidate to the other, in sentences; None if one of
        them has no profile."""
        if parent is None or child is None:
            return None
        before, after = self._profile(parent), self._profile(child)
        if not before or not after:
            return None
        return changes(
            self._kernels(parent.code, before), self._kernels(child.code, after), str(after["tier"])
        )

    def _kernels(self, code: str, profile: dict[str, Any]) -> list[Figures]:
        """The metrics of each kernel of the candidate `code`, from its recorded `profile`; computed once."""
        if code not in self._figures:
            self._figures[code] = [kernel_figures(kernel) for kernel in profile["kernels"]]
        return self._figures[code]

    def _profile(self, judged: JudgedCandidate) -> dict[str, Any] | None:
        """The recorded profile of a candidate, from its verdict or a separate event; None if there is
        none."""
        profile: dict[str, Any] | None = judged.verdict.get("profile") or self._profiles.get(judged.code)
        return profile

    @cached_property
    def _assigned(self) -> dict[str, list[ShownExchange]]:
        """The questions to models, with their answers, by the id of the line that they are shown with; each
        is shown once."""
        if not self._exchanges:
            return {}
        index = _ExchangeIndex([one.name for one in self._exchanges])
        taken: set[int] = set()
        assigned: dict[str, list[ShownExchange]] = {}
        for id_, entry in self._entries.items():
            mine = index.of(entry) - taken
            if mine:
                taken |= mine
                assigned[id_] = [self._exchanges[at] for at in sorted(mine)]
        return assigned


def linked(detail: StepDetail, knowledge: str, href: str) -> StepDetail:
    """Returns a copy of `detail` that mentions the step's entry in the knowledge base named `knowledge`;
    `href` is the entry's address, "" if there is no page to link to. Nothing is mentioned if both are empty,
    or if the step has no technique and performance state."""
    if not detail.known or not (knowledge or href):
        return replace(detail, known="")
    return replace(detail, knowledge=knowledge, known_href=href)


class _ExchangeIndex:
    """Finds the exchanges with a model that belong to a line of the tree, by their names (role/key of the
    question), without going through all of them."""

    def __init__(self, names: Sequence[str]) -> None:
        self._begins: dict[str, set[int]] = {}
        self._ends: dict[str, set[int]] = {}
        for at, name in enumerate(names):
            parts = name.split("/")
            for count in range(1, len(parts) + 1):
                self._begins.setdefault("/".join(parts[:count]), set()).add(at)
                if count < len(parts):
                    self._ends.setdefault("/".join(parts[count:]), set()).add(at)

    def of(self, entry: _Entry) -> set[int]:
        """The positions of the exchanges that produced the candidate of this line, or are about it."""
        link = entry.link
        begin: tuple[str, ...] = ("initial-writer",) if link is None and entry.row.number == 1 else ()
        if link is not None and link.step is not None:
            kernel = link.step.kernel
            begin = (f"lowerer/{link.parent}/{kernel}/{link.technique}", f"lowerer/plain/{link.id}")
        found = set(self._ends.get(entry.code, ()))
        for words in begin:
            found |= self._begins.get(words, set())
        return found


def _gauge_position(speedup: float) -> float:
    """Where a speedup is drawn on a logarithmic scale that is 84 units wide: 42 is 1x, 2 is 0.25x or less, 82
    is 4x or more."""
    return round(42 + 40 * max(-1.0, min(1.0, log2(max(speedup, 1e-9)) / 2)), 1)


def _distinct(steps: Sequence[Step]) -> Iterator[_Link]:
    """The steps as links, without repetitions: the same technique between the same two candidates counts
    once, even if several rollouts tried it."""
    seen: set[tuple[str, str, str]] = set()
    for step in steps:
        key = (step.parent, step.child, step.technique)
        if key not in seen:
            seen.add(key)
            about = (str(step.id), step.state, step.technique, step.predicted, step.parent, step.child)
            yield _Link(*about, speedup=step.speedup, step=step)


def _evidence(judged: JudgedCandidate) -> str:
    """What the judge said about a failed candidate, cut to EVIDENCE_SHOWN letters; empty for a correct
    one."""
    outcome = judged.verdict["outcome"]
    if "speedup" in outcome:
        return ""
    if outcome["kind"] == "TimedOut":
        return f"no answer within {outcome.get('limit_s')} s ({outcome.get('stage')})"
    said = f"{outcome.get('reason', '')}\n{outcome.get('evidence') or outcome.get('log') or ''}".strip()
    return said if len(said) <= EVIDENCE_SHOWN else said[:EVIDENCE_SHOWN] + " ..."
