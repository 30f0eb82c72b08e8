"""The content of a run's page while the run is written: verdict, tree of steps, what people can ask of the
search, questions to language models and their costs, and what was learned."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

from markupsafe import Markup

from kernelblaster.errors import StoreError
from kernelblaster.policies.llm.asker import ANSWER, QUESTION
from kernelblaster.records import Step
from kernelblaster.report.run.command import repeat_command
from kernelblaster.report.run.exchanges import ShownExchange, exchanges_of
from kernelblaster.report.run.facts import device_of, facts_of, worked_seconds
from kernelblaster.report.run.page import best_number, knowledge_name, learned_rows, progress_chart
from kernelblaster.report.run.slim import slim_event
from kernelblaster.report.run.steps import StepDetail, StepRow, Tree, linked
from kernelblaster.report.run.verdict import has_ended, verdict_of
from kernelblaster.report.source import ShownSource
from kernelblaster.serve.costs import role_costs
from kernelblaster.serve.rendering import render_macro
from kernelblaster.serve.steering_log import SteeringLog, steering_log
from kernelblaster.serve.topics import PagePart
from kernelblaster.store.follow import FollowedRun
from kernelblaster.store.history import History, written_by_others
from kernelblaster.store.run import STEERING
from kernelblaster.store.writer import writer_of

GONE = "The folder of this run is gone. What was read of it is shown."
TREE, ASKED = "tree", "asked-lines"
LONGEST_SOURCE = 400_000  # characters that are shown; a download has all


@dataclass(frozen=True)
class _Charted:
    """What the figure of a run was drawn for: how many candidates were judged, the code of the best, whether
    the run had ended."""

    judged: int
    best: str
    ended: bool

    def differs(self, drawn: "_Charted") -> bool:
        """True if something has changed since the figure was drawn (`drawn`) that it shows, so that it must
        be drawn again."""
        few = drawn.judged <= self.judged < drawn.judged + max(1, self.judged // 100)
        return not few or (self.best, self.ended) != (drawn.best, drawn.ended)


class RunView:
    """The content of the page of the run in `folder`, while the run is written. `address` is the web address
    of the run; `notice` returns a sentence about a process that was started to continue it, "" if there is
    nothing to say. `read_only`: the page offers nothing that could be asked of the search."""

    def __init__(
        self, folder: Path, address: str, notice: Callable[[], str] = lambda: "", read_only: bool = False
    ) -> None:
        self.run = FollowedRun(folder, slim_event)
        self.address = address
        self._notice = notice
        self._read_only = read_only
        self._seen: tuple[Any, ...] = ()
        self._rows: dict[StepRow, Markup] = {}
        self._steps: tuple[int, dict[int, list[Step]]] = (0, {})
        self._chart: tuple[_Charted, Markup] | None = None
        self.writer: int | None = None
        self._load()

    def refresh(self) -> bool:
        """Looks for changes: reads what is new in the run's log, which process works on the run, and what
        people asked of it. Returns whether anything changed."""
        changed = self.run.update()
        self.writer = writer_of(self.run.folder)
        seen = (self.writer, _stamp(self.run.folder / STEERING), self._said())
        if changed or seen != self._seen:
            self._seen = seen
            self._load()
            return True
        return False

    def _load(self) -> None:
        """Compute from the events so far what the page shows: history, exchanges with a model, tree of
        steps."""
        if self._steps[0] != self.run.begun:
            self._steps = (self.run.begun, {})
        self.history = History(self.run, self._steps[1])
        loads = [replace(one, load=self._load_address(one)) for one in exchanges_of(self.run.events)]
        self.exchanges: list[ShownExchange] = loads
        self.tree = Tree(self.run, self.history, loads, running=self.writer is not None)

    @property
    def by_others(self) -> bool:
        """True if the run's candidates are written by an agent or a user's program, and not by a search."""
        return written_by_others(self.history.about)

    @property
    def state(self) -> str:
        return "damaged" if self.run.damage else self.history.state(self.writer)

    def parts(self) -> list[PagePart]:
        """All parts of the run's page, as the run is now: head, verdict, facts, progress, steering, source,
        costs, what was learned, the tree."""
        history = self.history
        verdict = render_macro("components.html", "verdict_card", verdict_of(history), history.modelled)
        costs = role_costs(self.run.folder, history.about) if history.about.get("models") else []
        single = [
            PagePart("head", self._part("run_head", self._head())),
            PagePart("verdict", verdict),
            PagePart(
                "facts", self._part("run_facts", facts_of(self.run, history), repeat_command(history.about))
            ),
            PagePart("progress", self._progress()),
            PagePart("steering", self._part("steering", self._steering(), self.controls())),
            PagePart("best-source", self._best()),
            PagePart("costs", self._part("costs", costs, self._asked_counts())),
            PagePart("learned", self._part("learned", learned_rows(history), knowledge_name(history))),
        ]
        others = [PagePart(_exchange_id(one), _asked_line(one), ASKED) for one in self.tree.others]
        return [*single, *self._tree_parts(), *others]

    def detail(self, id_: str) -> tuple[StepRow, StepDetail]:
        """Returns (a line of the run's tree of steps, the details that are shown when that line is unfolded).
        `id_` is the line's id. Raises KeyError if there is no line with this id."""
        row = next((row for row in self.tree.rows if row.id == id_), None)
        if row is None:
            raise KeyError(id_)
        return row, linked(self.tree.detail(id_), knowledge_name(self.history), "")

    def exchange(self, number: int) -> ShownExchange | None:
        """Returns a question to a model with its answer. `number` is that of the event of the question or of
        the answer, in the run's log. Their texts are read from the log again. None if there is no such
        question; raises StoreError if the log cannot be read any more."""
        both = [event for event in self.run.events if event.kind in (QUESTION, ANSWER)]
        key = next((event.key for event in both if event.number == number), None)
        numbers = [event.number for event in both if event.key == key]
        found = exchanges_of([self.run.whole(one) for one in numbers])
        return found[0] if found else None

    def controls(self) -> dict[str, Any]:
        """What people can ask of the run now (stop, resume, limits, techniques), as values for the
        template."""
        offered = {name for e in self.run.events if e.kind == "proposals" for name in e.data["techniques"]}
        tried = {step.technique for step in self.history.steps}
        return {
            "address": self.address,
            "name": self.run.name,
            "running": self.writer is not None,
            "writer": self.writer,
            "in_bench": "job" in self.history.about,
            "finished": self.history.finished,
            "with_model": bool(self.history.about.get("models")),
            "judged": len(self.history.judged),
            "limit": self.history.limit,
            "by_others": self.by_others,
            "techniques": sorted(offered | {name for name in tried if " + " not in name}),
            "read_only": self._read_only,
            "broken": bool(self.run.damage) or not self.run.events or not self.run.folder.is_dir(),
        }

    def _head(self) -> dict[str, Any]:
        """The values for the head of the run's page: name, task, state, device, times, counts of
        candidates."""
        events, history = self.run.events, self.history
        return {
            "name": self.run.name,
            "task": history.task,
            "state": self.state,
            "damage": self.run.damage,
            "notice": self._said(),
            "why": history.stopped or _ended(self.run.events),
            "device": device_of(self.run, history),
            "modelled": history.modelled,
            "now": self._now() if self.writer is not None else "",
            "last": events[-1].at if events else None,
            "begun": events[0].at if events else None,
            "seconds": worked_seconds(events),
            "judged": len(history.judged),
            "limit": self._steering().limit or history.limit,
            "ended": has_ended(history),
        }

    def _said(self) -> str:
        """A sentence on the run's folder being gone, or on the process that continues it; empty if there is
        none."""
        return self._notice() if self.run.folder.is_dir() else GONE

    def _now(self) -> str:
        """What the search is doing at this moment, in words: preparing, judging a batch, waiting for a model,
        ..."""
        events = self.run.events
        last = events[-1] if events else None
        if last is None or last.kind in ("created", "task"):
            return "preparing the device"
        if last.kind == QUESTION:
            return f"waiting for the model's answer as {last.key.partition('/')[0]}"
        batch = next((event for event in reversed(events) if event.kind == "batch"), None)
        if batch is not None and last.kind in ("batch", "evaluation"):
            done = sum(event.kind == "evaluation" for event in events[batch.number + 1 :])
            granted = int(batch.data.get("granted", 0))
            if done < granted:
                return f"judging candidate {done + 1} of {granted} in this step"
        if last.kind in ("device", "evaluation") and len(self.history.judged) < 1:
            return "judging the first candidate"
        return {
            "profile": "profiling",
            "theta": "choosing",
            "proposals": "choosing",
            "choice": "writing candidates",
        }.get(last.kind, "working")

    def _steering(self) -> SteeringLog:
        return steering_log(self.run.folder, self.run.events)

    def _progress(self) -> Markup:
        """The figure of the times of all candidates as HTML. That of a long run is large, so it is drawn
        again only when the best has changed, or the run has ended or is a hundredth longer."""
        history = self.history
        now = _Charted(len(history.judged), history.best.code if history.best else "", has_ended(history))
        if self._chart is not None and not now.differs(self._chart[0]):
            return self._chart[1]
        chart = progress_chart(history)
        html = (
            render_macro("components.html", "figure", chart, id="progress") if chart else _empty("progress")
        )
        self._chart = (now, html)
        return html

    def _tree_parts(self) -> list[PagePart]:
        """The tree of steps as parts of the page, one for each line; a line's HTML is made again only if the
        line has changed."""
        best = best_number(self.history)
        made: dict[StepRow, Markup] = {}
        for row in self.tree.rows:
            html = self._rows.get(row)
            load = f"{self.address}/steps/{quote(row.id)}"
            made[row] = html if html is not None else render_macro("components.html", "step", row, load=load)
        self._rows = made
        empty = [] if made else [PagePart("tree-empty", self._part("tree_empty"), TREE)]
        assert best is None or best > 0
        return empty + [PagePart(row.id, html, TREE) for row, html in made.items()]

    def _best(self) -> Markup:
        """The HTML with the source of the best candidate, cut to LONGEST_SOURCE; an empty element if there is
        none."""
        best = self.history.best
        if best is None:
            return _empty("best-source")
        name = re.sub(r"[^\w.-]", "_", Path(self.history.task).stem[:80])
        try:
            text = self.history.source_of(best)
        except StoreError:
            return _empty("best-source")
        href = f"{self.address}/sources/{quote(best.source)}"
        source = ShownSource(f"{name}.cu", text[:LONGEST_SOURCE], "cuda", href)
        return self._part("best_source", source, has_ended(self.history))

    def _asked_counts(self) -> dict[str, int]:
        """How many questions the search asked of language models, how many were answered, and how many
        answers were useless."""
        answered = [event for event in self.run.events if event.kind == ANSWER]
        useless = sum(event.data.get("answer") is None for event in answered)
        asked = {event.key for event in self.run.events if event.kind in (QUESTION, ANSWER)}
        return {"asked": len(asked), "answered": len(answered), "useless": useless}

    def _load_address(self, one: ShownExchange) -> str:
        return f"{self.address}/exchanges/{one.number}"

    def _part(self, macro: str, *values: Any) -> Markup:
        return render_macro("run_parts.html", macro, *values)


def _ended(events: Sequence[Any]) -> str:
    """Why the search ended, as it recorded in its last event; empty if it has not ended."""
    for event in reversed(events):
        if event.kind == "finished":
            return str(event.data.get("ended", ""))
    return ""


def _exchange_id(one: ShownExchange) -> str:
    return f"exchange-{one.number}"


def _asked_line(one: ShownExchange) -> Markup:
    return render_macro("run_parts.html", "asked_line", one, _exchange_id(one))


def _empty(id_: str) -> Markup:
    return render_macro("run_parts.html", "empty", id_)


def _stamp(path: Path) -> int:
    """A number that changes whenever something is appended to a file: its size in bytes, 0 if there is
    none."""
    try:
        return path.stat().st_size
    except OSError:
        return 0
