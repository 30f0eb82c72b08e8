"""A report as CSV, one line for each task, and as Markdown."""

import csv
import io
from collections.abc import Sequence
from typing import Any

from kernelblaster.bench.tables import COLUMNS, baselines_of, cells
from kernelblaster.plain_text import csv_cell, markdown
from kernelblaster.quantities import percent, times
from kernelblaster.report.contents import Contents, group_named, table_rows
from kernelblaster.report.figures import named

TRANSITIONS_SHOWN = 15
USED_SHOWN = 30


def csv_of(contents: Contents) -> str:
    """Returns the report with these `contents` as CSV text: one line for each task and seed, times in
    microseconds, with a column of speedups and one of times for each baseline."""
    baselines = baselines_of(contents.subject.plan)
    plain = ("task", "group", "seed", "status", "reason", "us", "floor_us", "light")
    spent = ("evaluations", "device_seconds", "seconds", "tokens", "usd", "run")
    columns = [*plain, *(f"speedup_{name}" for name in baselines), *(f"{name}_us" for name in baselines)]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*columns, "applied", *spent])
    for row in table_rows(contents):
        values: list[Any] = [row[name] for name in plain]
        values += [row["against"].get(name) for name in baselines]
        values += [row["baseline_us"].get(name) for name in baselines]
        values += [" ".join(row["applied"]), *(row[name] for name in spent)]
        writer.writerow(map(csv_cell, values))
    return text.getvalue()


def markdown_of(contents: Contents, figures: Sequence[str] = ()) -> str:
    """Returns the report with these `contents` as Markdown text: summary, tasks, costs, what was used and
    learned, but not the single steps of the runs. `figures` are paths of image files, relative to the text,
    to show in it."""
    subject = contents.subject
    lines = [f"# {markdown(contents.title)}", "", *_head(contents), ""]
    lines += ["## Summary", "", *_summary(contents), ""]
    lines += [f"![{figure}]({figure})" for figure in figures]
    lines += ["", "## Tasks", "", *_tasks(contents), "", "## Costs", "", *_costs(contents), ""]
    lines += ["## What was used", "", *_used(contents), ""]
    if contents.learned:
        lines += ["## What was learned", "", *_learned(contents), ""]
    shown = markdown(", ".join(subject.plan.suites))
    return "\n".join([*lines, f"Suites: {shown}. Device: {subject.device}."]) + "\n"


def _head(contents: Contents) -> list[str]:
    """The first sentences of the Markdown report: how many tasks on which device, how they were timed, how
    many are valid, and the geometric mean speedups."""
    subject = contents.subject
    how = "modelled" if subject.modelled else "measured"
    afresh = "judged afresh beside each baseline" if subject.fresh else "as the search judged them"
    all_ = contents.headline
    ended = sum(row.result.status != "unfinished" for row in subject.rows)
    first = f"{all_.tasks} tasks on {subject.device}, times {how}, {afresh}; {all_.valid} valid."
    if ended < len(subject.rows):
        unfinished = f"Unfinished: {ended} of {len(subject.rows)} searches have ended."
        first = f"{unfinished} {first}" if ended else unfinished
    lines = [first]
    if contents.overall:
        one = contents.overall
        lines.append(
            f"Against {named(contents.main)}: geometric mean **{one.estimate:.2f}x** "
            f"({one.low:.2f} to {one.high:.2f}) over the valid ones."
        )
    if contents.gained:
        one = contents.gained
        lines.append(f"Over the first CUDA candidate: {one.estimate:.2f}x ({one.low:.2f} to {one.high:.2f}).")
    return lines


def _summary(contents: Contents) -> list[str]:
    """The summary as lines of a Markdown table, with a row for each group of tasks and each baseline."""
    rows = [[group_named(s.group), named(s.baseline), *cells(s.summary)] for s in contents.summaries]
    note = (
        "Average to max are over the valid tasks; shares are of all tasks; kept is the geometric mean where "
        "a task without a valid candidate keeps its baseline."
    )
    return [*table(["", "against", *COLUMNS], rows), "", note]


def _tasks(contents: Contents) -> list[str]:
    """The results as lines of a Markdown table, with a row for each task and seed."""
    baselines = baselines_of(contents.subject.plan)
    head = [
        "task",
        "status",
        "us",
        *(f"against {name}" for name in baselines),
        "of light",
        "judged",
        "applied",
    ]
    rows = []
    for row in table_rows(contents):
        name = row["task"] if len(contents.subject.plan.seeds) == 1 else f"{row['task']} #{row['seed']}"
        us = "" if row["us"] is None else f"{row['us']:.4g}"
        applied = ", ".join(row["applied"]) if row["status"] == "valid" else row["reason"]
        against = [times(row["against"].get(baseline)) for baseline in baselines]
        rows.append(
            [name, row["status"], us, *against, percent(row["light"]), str(row["evaluations"]), applied]
        )
    return table(head, rows)


def _costs(contents: Contents) -> list[str]:
    """What the searches cost as lines of a Markdown table, with a row for each group of tasks."""
    head = ["", "evaluations", "device s", "wall s", "tokens", "usd", "doublings each evaluation"]
    rows = []
    for one in contents.costs:
        cost, each = one.cost, one.for_each["evaluation"]
        usd = "unknown" if cost.usd is None else f"{cost.usd:.2f}"
        numbers = [f"{cost.evaluations}", f"{cost.device_seconds:.0f}", f"{cost.seconds:.0f}"]
        rows.append(
            [group_named(one.group), *numbers, f"{cost.tokens}", usd, "" if each is None else f"{each:.3f}"]
        )
    pace = contents.subject.pace
    return [*table(head, rows), *(["", pace] if pace else [])]


def _used(contents: Contents) -> list[str]:
    """What the searches tried, as lines of Markdown tables: techniques, states, and which technique followed
    which, each with how often it paid."""
    usage = contents.usage.as_dict()
    head = ["", "applications", "paid", "no gain", "failed", "median"]
    lines = []
    for kind in ("techniques", "states"):
        rows = [
            [
                one["name"],
                *(str(one[name]) for name in ("attempts", "paid", "idle", "failed")),
                times(one["median_speedup"]),
            ]
            for one in usage[kind][:USED_SHOWN]
        ]
        lines += [*table([kind[:-1], *head[1:]], rows), ""]
    average = usage["states_a_task"]
    if average is not None:
        lines += [f"States visited by a task, on average: {average:.1f}.", ""]
    rows = [
        [
            t.before,
            t.technique,
            str(t.attempts),
            percent(t.paid),
            times(t.median_speedup),
            times(t.median_anywhere),
        ]
        for t in contents.usage.transitions
        if t.attempts > 1
    ]
    return lines + table(
        ["after", "technique", "applications", "paid", "median", "median anywhere"], rows[:TRANSITIONS_SHOWN]
    )


def _learned(contents: Contents) -> list[str]:
    """What the knowledge base learned, as lines of a Markdown table: for each technique in a state the
    speedup expected before and after."""
    rows = []
    for one in contents.learned[:USED_SHOWN]:
        sides = [times(one[side]["speedup"]) if one[side] else "unknown" for side in ("before", "after")]
        attempts = f"{one['after']['attempts']:g}" if one["after"] else ""
        rows.append([one["state"], one["technique"], *sides, attempts])
    return table(["state", "technique", "expected before", "after", "attempts"], rows)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A Markdown table as lines. `head` are the column titles, `rows` the cells; special characters in them
    are escaped."""
    lines = ["| " + " | ".join(map(markdown, head)) + " |", "|" + "---|" * len(head)]
    for row in rows:
        lines.append("| " + " | ".join(map(markdown, row)) + " |")
    return lines
