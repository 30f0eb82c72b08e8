"""`kernelblaster kb show|search|diff|merge|export|import|log|rollback|stats|report`: shows what a knowledge
base contains, adds the content of another one or of a document, and returns to an earlier version."""

import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer
from rich.console import JustifyMethod
from rich.table import Table

from kernelblaster.cli import kb_check
from kernelblaster.cli.options import JsonOption
from kernelblaster.cli.terminal import Terminal, break_name, plain, wrap_hanging
from kernelblaster.errors import KnowledgeError
from kernelblaster.knowledge import (
    Content,
    KnowledgeBase,
    KnowledgeEvent,
    Scored,
    difference,
    export_document,
    import_changes,
)
from kernelblaster.knowledge.address import knowledge_at
from kernelblaster.knowledge.content import OptimizationEntry
from kernelblaster.knowledge.differences import Difference, Score, score
from kernelblaster.knowledge.document import LARGEST_BYTES
from kernelblaster.knowledge.recipes import format_prediction
from kernelblaster.knowledge.seed import seed_document
from kernelblaster.knowledge.summary import search as find
from kernelblaster.knowledge.summary import summarize
from kernelblaster.passwords import shown
from kernelblaster.records.recipe import is_recipe
from kernelblaster.strict_json import InvalidJson, read_bounded

app = typer.Typer(
    help="Look into a knowledge base, and look after it.", no_args_is_help=True, rich_markup_mode=None
)
app.command("check")(kb_check.check)
out = Terminal()
ROOM_FOR_NOTES = 100  # columns of a terminal
WIDEST = 27  # columns of a technique's name, where it is no recipe
BESIDE_STATE = 60  # columns of a list of states that are not the state's

KbOption = Annotated[
    str | None, typer.Option("--kb", help="A file, or postgresql://... for a server; else your own.")
]


@app.command("show")
def show(
    kb: KbOption = None,
    state: Annotated[str | None, typer.Argument(help="A state; without it, all are listed.")] = None,
    architecture: Annotated[str | None, typer.Option(help="Predict for this one, e.g. sm_90a.")] = None,
    after: Annotated[list[str] | None, typer.Option(help="A technique applied before; repeatable.")] = None,
    json_: JsonOption = False,
) -> None:
    """List all states or, with STATE, the optimizations of one state and the speedups expected of them."""
    with KnowledgeBase(knowledge_at(kb), create=False) as opened:
        content = opened.content()
    if state is None:
        _show_states(content, json_)
        return
    scored = content.optimizations(state, architecture, tuple(after or ()))
    if json_:
        entries = content.entries[content.resolve(state)] if scored else {}
        print(json.dumps([_scored(item, entries[item.optimization.technique]) for item in scored], indent=1))
        return
    known = content.states[content.resolve(state)]
    name, words = plain(known.state.name), plain(known.state.description)
    out.print(f"[bold]{name}[/bold]  {words}", markup=True, highlight=False)
    for note in known.notes:
        out.print(f"note: {note}", markup=False, highlight=False)
    recipes = [item for item in scored if is_recipe(item.optimization.technique)]
    entries = content.entries[known.state.name] if scored else {}
    _show_scored([item for item in scored if item not in recipes], entries)
    if recipes:
        out.print("recipes, by how near to the floor they lead", style="dim")
        _show_scored(sorted(recipes, key=lambda item: -item.prediction.mean), entries, "of floor's speed")


@app.command("search")
def search(
    words: Annotated[str, typer.Argument(help="Every word must occur.")],
    kb: KbOption = None,
    json_: JsonOption = False,
) -> None:
    """Find optimizations in which all the words occur: in their state, name, description or notes."""
    with KnowledgeBase(knowledge_at(kb), create=False) as opened:
        matches = find(opened.content(), words)
    if json_:
        print(json.dumps([entry.model_dump(mode="json") for entry in matches], indent=1))
        return
    for entry in matches:
        expected = score(entry)
        text = f"{format_prediction(entry.technique, expected.speedup)}  {_attempts(entry)}"
        line = f"{entry.state}  {entry.technique}  {text}"
        out.print(line, highlight=False, markup=False, soft_wrap=True)
    out.print(f"{len(matches)} optimizations", style="dim")


@app.command("stats")
def stats(kb: KbOption = None, json_: JsonOption = False) -> None:
    """Count states, techniques, attempts and failures, and show which technique pays after which other
    one."""
    own = Path(knowledge_at(None))
    if kb is None and not own.exists():  # that of somebody who has not optimized anything yet
        told = f"no knowledge base in {own.parent}; the first `kernelblaster optimize` begins one"
        print("null") if json_ else out.print(told, highlight=False, soft_wrap=True)
        return
    with KnowledgeBase(knowledge_at(kb), create=False) as opened:
        summary = summarize(opened.content())
    if json_:
        print(summary.model_dump_json(indent=1))
        return
    out.print(f"version        {summary.version}", highlight=False)
    out.print(f"states         {summary.states} ({summary.discovered} discovered)", highlight=False)
    tried = f"{summary.untried} untried, {summary.retired} retired"
    out.print(f"optimizations  {summary.optimizations} ({tried})", highlight=False)
    out.print(f"attempts       {summary.attempts:.0f}{_counts(summary.evidence)}", highlight=False)
    out.print(
        f"failures       {sum(summary.failures.values()):.0f}{_counts(summary.failures)}", highlight=False
    )
    for payoff in summary.payoffs:
        if round(payoff.speedup, 2) <= max(1.0, payoff.speedup_without or 0.0):
            continue  # it pays neither then, nor more than without
        alone = f"{payoff.speedup_without:.2f}x" if payoff.speedup_without else "never tried"
        clock = ", modelled" if payoff.modelled else ""
        line = f"{payoff.after} -> {payoff.technique}: {payoff.speedup:.2f}x (without: {alone}{clock})"
        text = wrap_hanging(out, f"{line} in {payoff.state}", len("payoff         "))
        out.print(f"payoff         {text}", highlight=False, soft_wrap=True)


@app.command("log")
def log(
    kb: KbOption = None,
    last: Annotated[int, typer.Option(help="How many events.", min=1)] = 20,
    json_: JsonOption = False,
) -> None:
    """Show the latest events: what changed in the knowledge base, when, and which run or document it came
    from."""
    with KnowledgeBase(knowledge_at(kb), create=False) as opened:
        events = opened.log(since=max(0, opened.version - last))
    if json_:
        print(json.dumps([event.model_dump(mode="json", exclude_none=True) for event in events], indent=1))
        return
    for event in events:
        out.print(_line(event), markup=False, highlight=False, soft_wrap=True)


@app.command("diff")
def diff(
    before: Annotated[int, typer.Argument(help="A version, see `kb log`.")],
    kb: KbOption = None,
    after: Annotated[int | None, typer.Argument(help="A later one; the latest if left out.")] = None,
    json_: JsonOption = False,
) -> None:
    """Show what the knowledge base learned between two of its versions."""
    with KnowledgeBase(knowledge_at(kb), create=False) as opened:
        changes = difference(opened.at(before), opened.content() if after is None else opened.at(after))
    if json_:
        print(changes.model_dump_json(indent=1))
    else:
        _print_difference(changes)


@app.command("merge")
def merge(
    other: Annotated[str, typer.Argument(help="The knowledge base to learn from: a file or a URL.")],
    kb: KbOption = None,
    json_: JsonOption = False,
) -> None:
    """Add what another knowledge base knows. Doing so a second time changes nothing."""
    with KnowledgeBase(other, create=False) as source, KnowledgeBase(knowledge_at(kb)) as opened:
        _say_taken(opened.merge(source), opened.version, json_)


@app.command("import")
def import_(
    document: Annotated[str, typer.Argument(help="A JSON document, or `seed` for what is shipped.")],
    kb: KbOption = None,
    json_: JsonOption = False,
) -> None:
    """Add what an exported document contains. If there is no knowledge base yet, one is made."""
    text = seed_document() if document == "seed" else _read(Path(document))
    changes = import_changes(text, document)
    with KnowledgeBase(knowledge_at(kb)) as opened:
        _say_taken(opened.take_over(changes), opened.version, json_)


@app.command("export")
def export(
    kb: KbOption = None,
    to: Annotated[
        Path | None, typer.Option("-o", "--out", "--output", help="A file; standard output if left out.")
    ] = None,
    limit: Annotated[int | None, typer.Option("--max-bytes", help="Trim it; 50000 suits a prompt.")] = None,
    json_: JsonOption = False,
) -> None:
    """Write the knowledge base as one JSON document: states, their optimizations, their scores."""
    with KnowledgeBase(knowledge_at(kb), create=False) as opened:
        text = export_document(opened.content(), limit)
    if to is None:
        print(text)
        return
    try:
        to.write_text(text + "\n")
    except OSError as error:
        raise KnowledgeError(f"{to}: cannot be written: {error.strerror}.") from error
    if json_:
        print(json.dumps({"path": str(to), "bytes": len(text.encode()) + 1}))
    else:
        out.print(f"{len(text.encode()) + 1} bytes in {to}", highlight=False, soft_wrap=True)


@app.command("report")
def report(
    kb: KbOption = None,
    to: Annotated[Path, typer.Option("-o", "--out", "--output", help="The page.")] = Path("knowledge.html"),
    json_: JsonOption = False,
) -> None:
    """Write a page about the knowledge base: states, techniques, evidence, expected speedups as small plots,
    and its growth.

    It is one self-contained HTML file that works offline.
    """
    from kernelblaster.report.knowledge_page import knowledge_page

    with KnowledgeBase(knowledge_at(kb), create=False) as opened:
        text = knowledge_page(opened, time.strftime("on %Y-%m-%d"))
    try:
        to.write_text(text, encoding="utf-8")
    except OSError as error:
        raise KnowledgeError(f"{to}: cannot be written: {error.strerror}.") from error
    if json_:
        print(json.dumps({"path": str(to), "bytes": len(text.encode())}))
    else:
        out.print(f"{to}  {len(text.encode()) / 1e6:.1f} MB", highlight=False, soft_wrap=True)


@app.command("rollback")
def rollback(
    version: Annotated[int, typer.Argument(help="What came after it no longer counts.")],
    kb: KbOption = None,
    json_: JsonOption = False,
) -> None:
    """Go back to an earlier version. This adds a new version with the old content, so it can be undone in the
    same way."""
    with KnowledgeBase(knowledge_at(kb), create=False) as opened:
        before = opened.version
        now = opened.rollback(version)
    if json_:
        print(json.dumps({"restored": version, "version": now}))
    else:
        where = f" --kb {shown(kb)}" if kb else ""
        undo = f"`kernelblaster kb rollback {before}{where}` undoes this"
        out.print(
            f"back at version {version}, recorded as version {now}; {undo}",
            highlight=False,
            markup=False,
            soft_wrap=True,
        )


def _read(path: Path) -> bytes:
    """Reads a document that the user names: a file, or standard input for `-`. Raises KnowledgeError if it
    cannot be read or has more than LARGEST_BYTES."""
    try:
        if str(path) != "-":
            return read_bounded(path, LARGEST_BYTES)
        data = sys.stdin.buffer.read(LARGEST_BYTES + 1)
    except FileNotFoundError as error:
        raise KnowledgeError(f"{path}: there is no such file.") from error
    except OSError as error:
        raise KnowledgeError(f"{path}: cannot be read: {error.strerror or error}.") from error
    except InvalidJson as error:
        raise KnowledgeError(f"{path}: {error}.") from error
    if len(data) > LARGEST_BYTES:
        raise KnowledgeError(f"standard input: is larger than {LARGEST_BYTES / 1e6:.0f} MB.")
    return data


def _say_taken(count: int, version: int, json_: bool) -> None:
    """Prints how many events (learned results and other changes) were taken over from another knowledge base,
    `count`, and the version that this one now has; with `json_` as JSON."""
    if json_:
        print(json.dumps({"new_events": count, "version": version}))
    else:
        out.print(f"{count} new events; now at version {version}", highlight=False)


def _show_states(content: Content, json_: bool) -> None:
    """Prints a table of the performance states in a knowledge base, each with how much is known and its best
    technique; with `json_`, the states as JSON."""
    if json_:
        print(json.dumps([entry.model_dump(mode="json") for entry in content.living], indent=1))
        return
    table = Table(box=None, header_style="dim", pad_edge=False)
    for title in ("state", "known", "attempts", "best", "expected"):
        table.add_column(title, justify="left" if title in ("state", "best") else "right", overflow="fold")
    for entry in content.living:
        name = entry.state.name
        rows = content.entries.get(name, {}).values()
        best = content.optimizations(name)[:1]
        technique = best[0].optimization.technique if best else ""
        modelled = bool(best) and score(content.entry(name, technique)).modelled
        speedup = best[0].prediction.speedup if best else 1.0
        expected = format_prediction(technique, speedup, modelled=modelled) if best else ""
        attempts = sum(row.evidence.total.attempts for row in rows)
        shown_name = break_name(out, name, out.width - BESIDE_STATE)
        table.add_row(shown_name, str(len(rows)), f"{attempts:.0f}", technique, expected)
    out.show(table)


def _attempts(entry: OptimizationEntry) -> str:
    """How many attempts at a technique a prediction is based on, as text that counts measured and modelled
    ones apart."""
    return f"{entry.evidence.clocks or 'no'} attempts"


def _scored(item: Scored, entry: OptimizationEntry) -> dict[str, object]:
    """A technique's prediction (`item`) with the evidence behind it (`entry`) as JSON data; `gain`,
    `log_mean` and `log_spread` are natural logs of speedups."""
    prediction = item.prediction
    return {
        **item.optimization.model_dump(mode="json"),
        "gain": prediction.gain,
        "log_mean": prediction.mean,
        "log_spread": prediction.spread,
        "weight": prediction.weight,
        "valid_chance": prediction.valid_chance,
        "conditioned_on": prediction.after,
        "attempts": {"measured": entry.evidence.measured, "modelled": entry.evidence.modelled},
        "notes": item.notes,
    }


def _show_scored(
    scored: list[Scored], entries: Mapping[str, OptimizationEntry], expected: str = "expected"
) -> None:
    """Prints a table with a line for each technique in `scored`, whose attempts are those of `entries`;
    `expected` is the title of the column of predictions. A technique's last note stands in the table if there
    is room, else below it."""
    beside = not out.is_terminal or out.width >= ROOM_FOR_NOTES
    table = Table(box=None, header_style="dim", pad_edge=False)
    titles = ("technique", expected, "likely range", "valid", "attempts", *(["note"] if beside else []))
    for title in titles:
        side: JustifyMethod = "left" if title in ("technique", "attempts", "note") else "right"
        table.add_column(title, justify=side, min_width=WIDEST if title == "technique" else None)
    for item in scored:
        p = item.prediction
        low, high = p.interval
        technique = item.optimization.technique
        speed = f"{p.speedup:.2f}" + ("" if is_recipe(technique) else "x")
        row = [technique, speed, f"{low:.2f} to {high:.2f}", f"{p.valid_chance:.0%}"]
        attempts = entries[technique].evidence.clocks or "none"
        table.add_row(*row, attempts, *([item.notes[-1] if item.notes else ""] if beside else []))
    out.show(table)
    for item in scored if not beside else ():
        if item.notes:
            note = f"{item.optimization.technique}: {item.notes[-1]}"
            out.print(wrap_hanging(out, note, 2), highlight=False)


def _line(event: KnowledgeEvent) -> str:
    """An event of the knowledge base as one line: version, time, kind of change, its data and where it came
    from."""
    change = event.change.model_dump(
        mode="json", exclude={"kind", "evidence", "entries"}, exclude_defaults=True
    )
    if "exemplar" in change:
        change["exemplar"] = f"{change['exemplar']['task']} at {change['exemplar']['reach']:.2f} of the floor"
    if "optimization" in change:
        change["optimization"] = change["optimization"]["technique"]
    if isinstance(change.get("state"), dict):
        change["state"] = change["state"]["name"]
    words = " ".join(f"{name}={value}" for name, value in change.items())
    source = " ".join(
        f"{name}={value}" for name, value in event.provenance.model_dump(exclude_none=True).items()
    )
    return f"{event.version}  {event.time:%Y-%m-%d %H:%M:%S}  {event.change.kind}  {words}  {source}".rstrip()


def _print_difference(changes: Difference) -> None:
    """Print what changed between two versions: states added and removed, predictions before and after, new
    notes."""
    for sign, names in (("+", changes.states_added), ("-", changes.states_removed)):
        for name in names:
            out.print(f"{sign} {name}", highlight=False, markup=False)
    for changed in changes.techniques:
        text = " -> ".join(_short(changed.technique, one) for one in (changed.before, changed.after))
        retired = f"  retired: {changed.retired}" if changed.retired else ""
        out.print(
            f"  {changed.state}  {changed.technique}: {text}{retired}",
            highlight=False,
            markup=False,
            soft_wrap=True,
        )
        for note in changed.notes:
            out.print(f"    note: {note}", highlight=False, markup=False)
    if changes.empty:
        out.print("no difference", style="dim")


def _short(technique: str, expected: Score | None) -> str:
    """The prediction for a technique as text: its expected speedup, and the number of attempts behind it;
    `none` for None."""
    return (
        "none"
        if expected is None
        else f"{format_prediction(technique, expected.speedup, modelled=expected.modelled)} "
        f"({expected.attempts:.0f} attempts)"
    )


def _counts(counts: dict[str, float]) -> str:
    """The counts in parentheses, the largest first; empty if there are none."""
    parts = [f"{name} {count:.0f}" for name, count in sorted(counts.items(), key=lambda pair: -pair[1])]
    return f" ({', '.join(parts)})" if parts else ""
