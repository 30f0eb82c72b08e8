"""Summaries of a bench: statistics of the speedups for each group of tasks (level or folder) and each
baseline, in the columns of the MAIC-RL paper's table 3."""

from collections.abc import Sequence
from dataclasses import dataclass

from kernelblaster.bench.jobs import INITIAL
from kernelblaster.bench.metrics import BenchSummary, geometric_mean, summarize
from kernelblaster.bench.record import BEST, BenchPlan, Row
from kernelblaster.quantities import percent, times

ALL = "all"
COLUMNS = ("valid", "average", "geomean", "median", "min", "max", "> 1x", "< 1x", "kept")


@dataclass(frozen=True)
class GroupSummary:
    """Statistics (`summary`) of the speedups of a group of tasks (a level or folder) over one baseline; the
    group `all` has all tasks."""

    group: str
    baseline: str
    summary: BenchSummary


def baselines_of(plan: BenchPlan) -> list[str]:
    """Returns the names of the baselines over which the tables of the bench `plan` show speedups, in the
    order of the columns. "best" comes first if there are several baselines: for each task the fastest one.
    The baselines follow, then "initial", the search's first candidate."""
    return [*([BEST] if len(plan.baselines) > 1 else []), *plan.baselines, INITIAL]


def groups_of(rows: Sequence[Row]) -> list[str]:
    """Returns the names of the groups (levels or folders of tasks) of the results `rows`, sorted, with `all`
    at the end if there are several."""
    groups = sorted({row.result.group for row in rows})
    return [*groups, ALL] if len(groups) > 1 else groups


def in_group(rows: Sequence[Row], group: str) -> list[Row]:
    """Returns those of the results `rows` whose task belongs to this group (a level or folder); all of them
    for the group `all`."""
    return [row for row in rows if group in (ALL, row.result.group)]


def task_speedups(rows: Sequence[Row], baseline: str) -> list[float | None]:
    """Returns one speedup over this baseline for each task in `rows` (results of searches): the geometric
    mean over the task's seeds. None for a task whose speedup is missing for any of its seeds."""
    by_task: dict[str, list[float | None]] = {}
    for row in rows:
        by_task.setdefault(row.result.task, []).append(row.speedup(baseline))
    means: list[float | None] = []
    for speedups in by_task.values():
        known = [speedup for speedup in speedups if speedup is not None]
        means.append(geometric_mean(known) if len(known) == len(speedups) else None)
    return means


def summaries(plan: BenchPlan, rows: Sequence[Row]) -> list[GroupSummary]:
    """Returns the statistics of the speedups in `rows` for each pair of a group of tasks (level or folder)
    and a baseline of `plan`, in the order of the table's rows."""
    return [
        GroupSummary(group, baseline, summarize(task_speedups(in_group(rows, group), baseline)))
        for group in groups_of(rows)
        for baseline in baselines_of(plan)
    ]


def cells(summary: BenchSummary) -> list[str]:
    """One row of a summary table as texts, in the order of COLUMNS; empty texts where there is no data."""
    numbers = (summary.average, summary.geometric_mean, summary.median, summary.minimum, summary.maximum)
    return [
        f"{summary.valid} of {summary.tasks}",
        *(times(number) for number in numbers),
        percent(summary.faster),
        percent(summary.slower),
        times(summary.kept),
    ]
