"""The tables of a bench's page: speedups, results by task, techniques used, what was learned, costs."""

from typing import Any

from kernelblaster.bench.tables import baselines_of
from kernelblaster.quantities import kind_text, times
from kernelblaster.report.contents import Contents, group_named, table_rows
from kernelblaster.report.figures import named
from kernelblaster.report.table import (
    Cell,
    Column,
    SortedTable,
    TableLine,
    number_cell,
    share_cell,
    speedup_cell,
)

PAIRS_SHOWN = 400
STATUS_TONES = {"valid": "good", "unfinished": "", "uncovered": "idle", "unfit": "idle"}
FOR_EACH = {
    "evaluation": "an evaluation",
    "device_second": "a device second",
    "token": "a token",
    "usd": "a dollar",
}


def summary_table(one: Contents) -> SortedTable:
    """Returns the main table of a bench (`one` has its contents): for each group of tasks (level) and each
    baseline, how many tasks have a valid candidate, and the mean, median, least and largest speedup."""
    speeds = ("average", "geomean", "median", "min", "max")
    columns = [Column("level"), Column("against"), Column("valid", "number")]
    columns += [Column(title, "number") for title in (*speeds, "> 1x", "< 1x", "kept")]
    lines = []
    for group in one.summaries:
        s = group.summary
        numbers = (s.average, s.geometric_mean, s.median, s.minimum, s.maximum)
        cells = [Cell(group_named(group.group)), Cell(named(group.baseline))]
        cells += [Cell(f"{s.valid} of {s.tasks}", s.valid), *map(speedup_cell, numbers)]
        cells += [share_cell(s.faster), share_cell(s.slower), speedup_cell(s.kept)]
        lines.append(TableLine(tuple(cells)))
    return SortedTable(tuple(columns), tuple(lines))


def task_table(one: Contents) -> SortedTable:
    """Returns the table with a row for each search of a bench: task, seed, status, speedup over each
    baseline, time. A row opens its run, if there is one."""
    kind = f",{kind_text(True)}" if one.subject.modelled else ""
    rows = table_rows(one)
    several = len({row["seed"] for row in rows}) > 1
    levels = not all(row["group"] in row["task"] for row in rows)
    others = [name for name in baselines_of(one.subject.plan) if name != one.main]
    columns = [Column("task", "name"), *([Column("level")] if levels else []), Column("status")]
    by = len(columns)
    columns += [Column(f"speedup{kind}", "number")]
    columns += [Column(f"vs {name.replace('max-', '')}", "number") for name in others]
    columns += [Column(f"us{kind}", "number"), Column("of light", "number"), Column("judged", "number")]
    columns += [Column("applied", "wide")]
    lines = []
    for row in rows:
        between = "" if row["low"] is None else f"between {times(row['low'])} and {times(row['high'])}"
        cells = [Cell(f"{row['task']} #{row['seed']}" if several else row["task"])]
        cells += [Cell(row["group"])] if levels else []
        tone = STATUS_TONES.get(row["status"], "bad")
        cells += [Cell(row["status"], tone=tone, tip=row["reason"], tag=True)]
        cells += [speedup_cell(row["speedup"], strong=True, tip=between)]
        cells += [speedup_cell(row["against"].get(name)) for name in others]
        floor = f"floor {row['floor_us']:.4g} us" if row["floor_us"] else ""
        cells += [number_cell(row["us"]), share_cell(row["light"], floor), number_cell(row["evaluations"])]
        words = ", ".join(row["applied"]) if row["status"] == "valid" else row["reason"]
        cells += [Cell(words, tip=words, clamped=True)]
        key = row["job"] if row["job"] in one.details else ""
        lines.append(TableLine(tuple(cells), key, (("group", row["group"]), ("status", row["status"]))))
    return SortedTable(tuple(columns), tuple(lines), by)


def used_tables(one: Contents) -> tuple[SortedTable, SortedTable] | None:
    """Returns two tables of the report on a bench (`one` has the report's contents). The first counts how
    often each technique paid in each performance state, the second how often each technique paid directly
    after each other technique. None if no technique was applied."""
    used = one.usage.as_dict()
    if not used["techniques"]:
        return None
    pairs, after = used["pairs"][:PAIRS_SHOWN], used["transitions"][:PAIRS_SHOWN]
    counts = [Column(name, "number") for name in ("applied", "paid", "no gain", "failed", "median")]
    names = (Column("state", "name"), Column("technique", "name"))
    follows = [Column("after", "name"), Column("technique", "name")]
    follows += [Column(name, "number") for name in ("applied", "paid", "median", "anywhere")]
    return (
        SortedTable((*names, *counts), tuple(map(_used_line, pairs)), 2),
        SortedTable(tuple(follows), tuple(map(_transition_line, after)), 4),
    )


def _used_line(row: dict[str, Any]) -> TableLine:
    """The table row on a technique in a state: how often it was tried, paid and failed. `row` is an entry of
    `pairs` in what `TechniqueUsage.as_dict` returns."""
    failures = ", ".join(f"{kind} {count}" for kind, count in row["failures"].items())
    counts = [number_cell(row[name]) for name in ("attempts", "paid", "idle")]
    failed = Cell(str(row["failed"]), row["failed"], tip=failures)
    cells = (Cell(row["state"]), Cell(row["technique"]), *counts, failed, speedup_cell(row["median_speedup"]))
    return TableLine(cells)


def _transition_line(row: dict[str, Any]) -> TableLine:
    """The table row of a technique tried directly after another; `row` is one of `transitions` in
    `TechniqueUsage.as_dict`."""
    speeds = (speedup_cell(row["median_speedup"]), speedup_cell(row["median_anywhere"]))
    cells = (number_cell(row["attempts"]), share_cell(row["paid"]), *speeds)
    return TableLine((Cell(row["before"]), Cell(row["technique"]), *cells))


def learned_table(one: Contents) -> SortedTable:
    """Returns the table of what the knowledge base learned in a bench (`one` has the report's contents): for
    each technique in each performance state the speedup expected before and after the bench, and the reason
    for the change."""
    columns = [Column("state", "name"), Column("technique", "name")]
    titles = ("expected before", "after", "valid", "attempts")
    columns += [Column(title, "number") for title in titles]
    lines = []
    for row in one.learned:
        before, after = row["before"] or {}, row["after"] or {}
        known = speedup_cell(before.get("speedup")) if before else Cell("unknown")
        why = row["reasons"][-1] if row["reasons"] else ""
        cells = [Cell(row["state"]), Cell(row["technique"]), known]
        cells += [speedup_cell(after.get("speedup"), strong=True), share_cell(after.get("valid_chance"))]
        cells += [number_cell(after.get("attempts")), Cell(why, tip=why, clamped=True)]
        lines.append(TableLine(tuple(cells)))
    return SortedTable((*columns, Column("why", "wide")), tuple(lines), 5)


def cost_table(one: Contents) -> SortedTable:
    """Returns the table of the costs of a bench (`one` has the report's contents): what the searches of each
    group of tasks (level or folder) spent, and how many doublings of speed they gained for each evaluation,
    second, token and dollar."""
    titles = ("evaluations", "device s", "wall s", "tokens", "usd")
    columns = [Column("level"), *(Column(title, "number") for title in titles)]
    columns += [Column(f"doublings for {words}", "number") for words in FOR_EACH.values()]
    lines = []
    for costs in one.costs:
        cost = costs.cost
        usd = Cell("unknown") if cost.usd is None else Cell(f"{cost.usd:.2f}", cost.usd)
        cells = [Cell(group_named(costs.group)), number_cell(cost.evaluations)]
        cells += [
            number_cell(cost.device_seconds, 3),
            number_cell(cost.seconds, 3),
            number_cell(cost.tokens),
            usd,
        ]
        cells += [number_cell(costs.for_each[name], 3) for name in FOR_EACH]
        lines.append(TableLine(tuple(cells)))
    return SortedTable(tuple(columns), tuple(lines))
