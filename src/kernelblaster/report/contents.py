"""Everything that a report on a bench or on runs shows, computed once for the page, the Markdown and the
CSV."""

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from kernelblaster.bench.jobs import INITIAL
from kernelblaster.bench.metrics import (
    BenchSummary,
    Cost,
    Interval,
    gain_for_each,
    geometric_mean_interval,
    quartiles,
)
from kernelblaster.bench.record import BEST, BenchPlan, Row
from kernelblaster.bench.tables import ALL, GroupSummary, baselines_of, groups_of, in_group, summaries
from kernelblaster.bench.usage import TechniqueUsage, usage_of
from kernelblaster.report.chart import Chart
from kernelblaster.report.figures import figures_of, named
from kernelblaster.report.learned import merge_learned
from kernelblaster.report.reading import Subject, open_runs
from kernelblaster.report.trajectory import Detail, detail_of


@dataclass(frozen=True)
class Costs:
    """What the searches of one `group` of tasks (a level or folder) cost, in all (`cost`). `for_each` says
    how much was gained over the first candidates for each unit spent, in doublings of speed (a speedup of 4
    is two). Units are "evaluation", "device_second", "second", "token" and "usd"; None for a unit of which
    none was spent, or whose price is unknown."""

    group: str
    cost: Cost
    for_each: dict[str, float | None]


@dataclass(frozen=True)
class Contents:
    """Everything that a report on one subject (a bench or a group of runs) shows.

    `main` is the baseline of the headlines. Two geometric means are over the valid tasks (those with a
    correct and timed candidate): `overall` of the speedups over `main`, `gained` of the speedups over the
    searches' first candidates; None if no task is valid. `light` are quartiles of the floor (the least time
    that the GPU allows) divided by the time reached: 1 is the limit. `summaries` and `charts` cover the
    searches that have ended. `learned` has a row (a dict) for each pair of a performance state and a
    technique about which the runs taught the knowledge base something. `costs` is what groups of tasks cost,
    `usage` how often techniques were tried and paid. `details` has what is shown of each run, by the key of
    its search.
    """

    subject: Subject
    main: str
    summaries: list[GroupSummary]
    overall: Interval | None
    gained: Interval | None
    light: tuple[float, float, float] | None
    costs: list[Costs]
    usage: TechniqueUsage
    learned: list[dict[str, Any]]
    charts: list[Chart]
    details: dict[str, Detail]

    @property
    def title(self) -> str:
        return self.subject.name

    @property
    def headline(self) -> BenchSummary:
        """Statistics over all tasks of the speedups over the main baseline: what the top of the report
        shows."""
        return next(one.summary for one in self.summaries[::-1] if one.baseline == self.main)


def contents_of(subject: Subject) -> Contents:
    """Returns everything that the report on one subject (a bench, or several runs) shows: statistics,
    figures, costs, what was learned, and the steps of each run. Reads the log of each of its runs, which may
    take seconds."""
    rows = subject.rows
    ended = [row for row in rows if row.result.status != "unfinished"]
    counted = replace(subject, rows=ended or rows)
    main = BEST if len(subject.plan.baselines) > 1 else subject.plan.baselines[0]
    details = {row.result.job: detail_of(run) for row, run in open_runs(subject)}
    usage = usage_of({job: detail.steps for job, detail in details.items()})
    paths = {job: detail.path for job, detail in details.items()}
    runs = {row.result.job: row.result.run or "" for row in rows}
    steps = [step for job in sorted(details, key=lambda job: runs[job]) for step in details[job].steps]
    shares = [
        r.floor_us / r.best_us
        for r in (row.result for row in rows)
        if r.status == "valid" and r.floor_us and r.best_us
    ]
    return Contents(
        subject=subject,
        main=main,
        summaries=summaries(subject.plan, counted.rows),
        overall=_interval(rows, main),
        gained=_interval(rows, INITIAL),
        light=quartiles(shares),
        costs=[_costs(group, in_group(rows, group)) for group in groups_of(rows)],
        usage=usage,
        learned=merge_learned([d.learned for d in details.values() if d.learned]),
        charts=figures_of(counted, paths, usage, steps),
        details=details,
    )


def _interval(rows: list[Row], baseline: str) -> Interval | None:
    """The geometric mean speedup against a baseline over the valid tasks among `rows`, with its confidence
    interval; the seeds of a task are averaged first. None without a valid task."""
    by_task: dict[str, list[float]] = {}
    for row in rows:
        speedup = row.speedup(baseline)
        if speedup is not None:
            by_task.setdefault(row.result.task, []).append(speedup)
    return geometric_mean_interval(list(by_task.values()))


def _costs(group: str, rows: list[Row]) -> Costs:
    """Adds up what the searches of a group of tasks cost. `rows` are these searches, `group` is the name to
    show."""
    cost = Cost()
    for row in rows:
        cost = cost.plus(row.result.spent.cost)
    return Costs(group, cost, gain_for_each([row.speedup(INITIAL) for row in rows], cost))


def table_rows(contents: Contents) -> list[dict[str, Any]]:
    """Returns the result table of the report with these `contents` as JSON data, one dict for each task and
    seed. Times are in microseconds. "light" is the floor (the least time that the GPU allows) divided by the
    best time: 1 at the limit. Values that are not known are None."""
    rows = []
    for row in contents.subject.rows:
        result = row.result
        beside = row.beside_best
        rows.append(
            {
                "job": result.job,
                "task": result.task,
                "group": result.group,
                "seed": result.seed,
                "status": result.status,
                "reason": result.reason,
                "speedup": _rounded(row.speedup(contents.main)),
                "low": _rounded(beside.speedup.low if beside and beside.speedup else None),
                "high": _rounded(beside.speedup.high if beside and beside.speedup else None),
                "against": {
                    name: _rounded(row.speedup(name)) for name in baselines_of(contents.subject.plan)
                },
                "baseline_us": {name: _rounded(one.baseline_us) for name, one in row.measured.items()},
                "us": _rounded(beside.us if beside else result.best_us),
                "floor_us": _rounded(result.floor_us),
                "light": _rounded(
                    result.floor_us / result.best_us if result.floor_us and result.best_us else None
                ),
                "applied": list(result.applied),
                "evaluations": result.spent.evaluations,
                "device_seconds": _rounded(result.spent.device_seconds),
                "seconds": _rounded(result.spent.seconds),
                "tokens": result.spent.tokens,
                "usd": _rounded(result.spent.usd),
                "run": result.run,
            }
        )
    return rows


def summary_dict(contents: Contents) -> dict[str, Any]:
    """Returns all numbers that the report with these `contents` shows, as JSON data, for the page and for
    `report --json`."""
    subject = contents.subject
    plan = subject.plan
    return {
        "name": contents.title,
        "device": subject.device,
        "modelled": subject.modelled,
        "fresh": subject.fresh,
        "suites": list(plan.suites),
        "settings": settings_of(contents),
        "baselines": [{"name": name, "title": named(name)} for name in baselines_of(plan)],
        "main": contents.main,
        "main_title": named(contents.main),
        "groups": groups_of(subject.rows),
        "valid": contents.headline.valid,
        "tasks": contents.headline.tasks,
        "statuses": _statuses(subject.rows),
        "overall": asdict(contents.overall) if contents.overall else None,
        "gained": asdict(contents.gained) if contents.gained else None,
        "light": contents.light,
        "summaries": [
            {"group": one.group, "baseline": one.baseline} | asdict(one.summary) for one in contents.summaries
        ],
        "costs": [
            {"group": one.group} | asdict(one.cost) | {"for_each": one.for_each} for one in contents.costs
        ],
        "usage": _used(contents.usage),
        "learned": contents.learned,
        "rows": table_rows(contents),
    }


def _start(plan: BenchPlan) -> str:
    """The knowledge base that a bench's searches started with, by a name for display: of a file only its
    name, of a URL what follows the password."""
    return plan.start.rpartition("@")[2] if "://" in plan.start else Path(plan.start).name


def settings_of(contents: Contents) -> dict[str, Any]:
    """Returns the settings of all searches of the bench whose report has these `contents`, by name, for
    display. Settings that are not set are left out. The seeds come last, as a list."""
    plan = contents.subject.plan
    setup = plan.setup
    values = {"policy": setup.policy, "model": setup.model, "strategy": setup.strategy}
    values |= {
        "dtype": setup.dtype or "of the files",
        "knows": _start(plan) if setup.remembers else None,
    }
    values |= {name: value for name, value in setup.search.model_dump().items() if name != "seed"}
    return {name: value for name, value in values.items() if value is not None} | {"seeds": list(plan.seeds)}


def _used(usage: TechniqueUsage) -> dict[str, Any]:
    """The statistics on techniques and states as JSON data; tasks get the number of states that their
    candidates were in, not the names."""
    used = usage.as_dict()
    states = {task: len(visited) for task, visited in used.pop("visited").items()}
    return used | {"states_by_task": states}


def _statuses(rows: list[Row]) -> dict[str, int]:
    """How many searches ended in which way ("valid", "broken", "unfinished", ...), by status."""
    counts: dict[str, int] = {}
    for row in rows:
        counts[row.result.status] = counts.get(row.result.status, 0) + 1
    return counts


def _rounded(value: float | None) -> float | None:
    """The value with five significant digits, to keep the JSON short; None stays None."""
    return None if value is None else float(f"{value:.5g}")


def group_named(group: str) -> str:
    return "all tasks" if group == ALL else group
