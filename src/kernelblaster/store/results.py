"""`leave_results` writes the files that a finished run leaves in its folder: the best source, the trajectory
(its steps), and what was learned. The last two are written as Markdown to read and as JSON."""

import json
from collections.abc import Sequence
from typing import Any

from kernelblaster.knowledge.differences import Changed, Score, difference
from kernelblaster.knowledge.events import KnowledgeEvent
from kernelblaster.knowledge.knowledge_base import KnowledgeBase
from kernelblaster.knowledge.recipes import format_prediction
from kernelblaster.plain_text import markdown
from kernelblaster.records import Candidate, Step
from kernelblaster.store.files import write_whole
from kernelblaster.store.history import History
from kernelblaster.store.run import Run


def leave_results(run: Run, best: Candidate, applied: Sequence[str], knowledge: KnowledgeBase) -> None:
    """Writes best.cu, trajectory.json, trajectory.md, learned.json and learned.md into the run's folder.
    Records an event "results" with the best candidate `best`, the techniques `applied` on the way to it, and
    what the run taught `knowledge`."""
    data = run.conclude(
        "results",
        lambda: {"best": best.code, "applied": list(applied), "learned": _learned(run, knowledge)},
    )
    history = History(run)
    reasons = {judged.code: judged.why for judged in history.judged}
    steps = [_step(step, reasons.get(step.child, "")) for step in history.steps]
    trajectory = {
        "best": data["best"],
        "applied": data["applied"],
        "modelled": history.modelled,
        "steps": steps,
    }
    write_whole(run.folder / "best.cu", best.source)
    write_whole(run.folder / "trajectory.json", json.dumps(trajectory, indent=1) + "\n")
    write_whole(run.folder / "trajectory.md", _trajectory_table(trajectory))
    write_whole(run.folder / "learned.json", json.dumps(data["learned"], indent=1) + "\n")
    write_whole(run.folder / "learned.md", _learned_table(data["learned"]))


def _step(step: Step, why: str) -> dict[str, Any]:
    """A step as JSON data, with its speedup, or the kind of its failure and `why` it failed, instead of its
    result."""
    data = step.model_dump(mode="json", exclude={"result"})
    return data | (
        {"speedup": step.speedup} if step.failure is None else {"failure": step.failure, "why": why}
    )


def _trajectory_table(record: dict[str, Any]) -> str:
    """A run's steps as a Markdown table for trajectory.md; `record` is the content of trajectory.json."""
    lines = [
        f"applied: {markdown(', '.join(record['applied'])) or 'nothing, the first candidate is the best'}",
        "",
        f"| step | state | technique | predicted | {'modelled' if record['modelled'] else 'measured'} | |",
        "|---|---|---|---|---|---|",
    ]
    for step in record["steps"]:
        measured = f"{step['speedup']:.2f}x" if "speedup" in step else step["failure"]
        remark = "taken" if step["taken"] else step.get("why", "")
        lines.append(
            f"| {step['id']} | {markdown(step['state'])} | {markdown(step['technique'])} "
            f"| {step['predicted']:.2f}x | {markdown(measured)} | {markdown(remark)} |"
        )
    return "\n".join(lines) + "\n"


def _learned(run: Run, knowledge: KnowledgeBase) -> dict[str, Any]:
    """What this run changed in the knowledge base, as JSON data: its versions before ("from") and after
    ("to"), the added performance "states", the changed "techniques" with their scores before and after, the
    "reasons" for surprising results, and the recorded changes ("events"). Changes by other runs at the same
    time are left out, except that expectations include them."""
    begun = min((e.data["version"] for e in run.events if e.kind == "theta"), default=knowledge.version)
    mine = [event for event in knowledge.log(since=begun) if event.provenance.run == run.name]
    changes = difference(knowledge.at(begun), knowledge.content())
    touched = {_touched(event) for event in mine}
    return {
        "from": begun,
        "to": mine[-1].version if mine else begun,
        "states": [e.change.state.name for e in mine if e.change.kind == "state_added"],
        "techniques": [
            c.model_dump(mode="json") for c in changes.techniques if (c.state, c.technique) in touched
        ],
        "reasons": [gap for e in run.events if e.kind == "update" for gap in e.data["gaps"]],
        "events": [_event(event) for event in mine],
    }


def _event(event: KnowledgeEvent) -> dict[str, Any]:
    """An event of the knowledge base as JSON data, without the source of an example candidate, which the run
    has anyway."""
    data = event.model_dump(mode="json", exclude_none=True)
    data["change"].get("exemplar", {}).pop("source", None)
    return data


def _touched(event: KnowledgeEvent) -> tuple[str, str]:
    """The (state, technique) that an event of the knowledge base is about; empty strings where it names
    none."""
    change = event.change
    if change.kind == "optimization_added":
        return change.state, change.optimization.technique
    return str(getattr(change, "state", "")), str(getattr(change, "technique", ""))


def _learned_table(learned: dict[str, Any]) -> str:
    """What a run learned as a Markdown table: the expected speedup of each technique that it tried, before
    and after, and why it changed. `learned` is the content of learned.json."""
    lines = [
        f"{len(learned['events'])} events, from version {learned['from']} to {learned['to']}; new states: "
        f"{markdown(', '.join(learned['states'])) or 'none'}",
        "",
        "| state | technique | expected before | after | attempts |",
        "|---|---|---|---|---|",
    ]
    for changed in map(Changed.model_validate, learned["techniques"]):
        attempts = changed.after.attempts if changed.after else 0
        lines.append(
            f"| {markdown(changed.state)} | {markdown(changed.technique)} "
            f"| {_expected(changed.technique, changed.before)} "
            f"| {_expected(changed.technique, changed.after)} | {attempts:g} |"
        )
    reasons = [
        "- " + markdown(f"{r['state']}, {r['technique']}: {r['sentence']}") for r in learned["reasons"]
    ]
    return "\n".join([*lines, "", *reasons]).rstrip() + "\n"


def _expected(technique: str, score: Score | None) -> str:
    """The predicted speedup of a technique as text, with a mark if all times behind it are modelled;
    "unknown" for None."""
    return format_prediction(technique, score.speedup, modelled=score.modelled) if score else "unknown"
