"""Compares several subjects of reports (benches or groups of runs) on the tasks that all of them have."""

from collections.abc import Sequence

from kernelblaster.bench.metrics import fast_p_band, geometric_mean_interval, thresholds
from kernelblaster.bench.record import BEST
from kernelblaster.bench.tables import task_speedups
from kernelblaster.quantities import times
from kernelblaster.report.chart import TONES, Chart, ChartAxis, ChartLine, LineChart
from kernelblaster.report.contents import Contents
from kernelblaster.report.table import SortedTable, text_table


def common_tasks(contents: Sequence[Contents]) -> set[str]:
    """Returns the names of the tasks that every one of the benches compared (`contents` has one entry for
    each) searched, whether with a valid result or not."""
    sets = [{row.result.task for row in one.subject.rows} for one in contents]
    return set.intersection(*sets)


def comparison_table(contents: Sequence[Contents]) -> SortedTable:
    """Returns the table that compares several benches (one entry of `contents` each) on the tasks that all of
    them have. A row is a bench. Its columns are the bench's title, its device, the number of valid tasks, the
    geometric mean of the speedups over the baseline, the speed relative to the first bench on the tasks that
    are valid in both (a geometric mean with a confidence interval), and the number of candidates judged."""
    common = common_tasks(contents)
    head = ["", "device", f"valid of {len(common)}", "geomean", "over the first", "judged"]
    first = _by_task(contents[0], common)
    rows = []
    for one in contents:
        mine = _by_task(one, common)
        overall = geometric_mean_interval(list(mine.values()))
        both = [[_mean(mine[t]) / _mean(first[t])] for t in sorted(mine.keys() & first.keys())]
        ratio = geometric_mean_interval(both)
        judged = sum(r.result.spent.evaluations for r in one.subject.rows if r.result.task in common)
        over = f"{ratio.estimate:.3f} ({ratio.low:.3f} to {ratio.high:.3f})" if ratio else ""
        speed = times(overall.estimate) if overall else ""
        rows.append([one.title, one.subject.device, str(len(mine)), speed, over, str(judged)])
    return text_table(head, rows)


def comparison_chart(contents: Sequence[Contents]) -> Chart | None:
    """Returns a figure with one fast_p curve for each of several benches (one entry of `contents` each). The
    curve shows, for each p, the share of tasks that are more than p times as fast as the bench's own main
    baseline. Only tasks that all benches have count. None if no bench has a valid result for any of these."""
    common = common_tasks(contents)
    sets = [
        task_speedups([row for row in one.subject.rows if row.result.task in common], one.main)
        for one in contents
    ]
    if not any(any(speedups) for speedups in sets):
        return None
    at = thresholds([speedup for speedups in sets for speedup in speedups])
    lines = []
    for index, (one, speedups) in enumerate(zip(contents, sets, strict=True)):
        bands = fast_p_band(speedups, at)
        lines.append(
            ChartLine(
                name=one.title,
                points=tuple((p, band.estimate) for p, band in zip(at, bands, strict=True)),
                tone=TONES[index % len(TONES)],
                band=tuple((p, band.low, band.high) for p, band in zip(at, bands, strict=True)),
            )
        )
    against = "the best baseline" if any(one.main == BEST for one in contents) else "the baseline"
    return LineChart(
        name="fast_p-compared",
        title=f"fast_p against {against}",
        x=ChartAxis("p: times as fast", at[0], at[-1], log=True, format="times"),
        y=ChartAxis("share of all tasks", 0.0, 1.0, format="percent", ticks=(0, 0.25, 0.5, 0.75, 1)),
        lines=tuple(lines),
        uprights=(1.0,),
        caption=f"On the {len(common)} tasks that all have.",
    )


def _by_task(one: Contents, common: set[str]) -> dict[str, list[float]]:
    """The speedups over the main baseline of the valid searches of `common` tasks, by task, one for each
    seed; tasks without any are missing."""
    speedups: dict[str, list[float]] = {}
    for row in one.subject.rows:
        speedup = row.speedup(one.main)
        if speedup is not None and row.result.task in common:
            speedups.setdefault(row.result.task, []).append(speedup)
    return speedups


def _mean(values: Sequence[float]) -> float:
    """The geometric mean of positive values, of which there must be at least one."""
    interval = geometric_mean_interval([values])
    assert interval is not None
    return interval.estimate
