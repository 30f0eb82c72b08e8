"""The figures of a bench report: fast_p, speedups, roofline, costs, techniques used."""

from collections.abc import Mapping, Sequence
from math import log2

from kernelblaster.bench.jobs import INITIAL
from kernelblaster.bench.metrics import fast_p_band, thresholds
from kernelblaster.bench.record import BEST, Row
from kernelblaster.bench.tables import ALL, baselines_of, groups_of, in_group, task_speedups
from kernelblaster.bench.usage import TechniqueUsage, discovery_of
from kernelblaster.records import Step
from kernelblaster.report.chart import (
    TONES,
    Bar,
    Bars,
    Chart,
    ChartAxis,
    ChartLine,
    LineChart,
    Stack,
    Tone,
    log_range,
)
from kernelblaster.report.reading import Subject
from kernelblaster.report.trajectory import PathPoint

USED_SHOWN = 24
PATHS_SHOWN = 60


def figures_of(
    subject: Subject, paths: Mapping[str, Sequence[PathPoint]], usage: TechniqueUsage, steps: Sequence[Step]
) -> list[Chart]:
    """Returns the figures of a report on `subject`; those without data are left out. `paths` maps the key of
    each search to the candidates that led to its best one. `usage` counts what was tried. `steps` are the
    steps of all runs, the earliest run first."""
    tones = tones_of(subject.rows)
    main = BEST if len(subject.plan.baselines) > 1 else subject.plan.baselines[0]
    charts = [
        fast_p_chart(subject, main),
        fast_p_chart(subject, INITIAL),
        speedup_chart(subject, main, tones),
        roofline_chart(subject, paths, tones),
        light_chart(subject, tones),
        cost_chart(subject, tones),
        used_chart(usage, "techniques"),
        used_chart(usage, "states"),
        discovery_chart(steps),
    ]
    return [chart for chart in charts if chart is not None]


def tones_of(rows: Sequence[Row]) -> dict[str, Tone]:
    """Returns a colour for each group of tasks (level or folder) in `rows` (results of searches), by the
    group's name. The group "all" gets none."""
    groups = [group for group in groups_of(rows) if group != ALL]
    return {group: TONES[index % len(TONES)] for index, group in enumerate(groups)}


def named(baseline: str) -> str:
    """A baseline's name in words for readers: "eager PyTorch" for `eager`."""
    return {
        BEST: "the best baseline",
        INITIAL: "the first CUDA candidate",
        "eager": "eager PyTorch",
        "compile": "torch.compile",
        "max-autotune": "torch.compile (max-autotune)",
        "iree": "IREE",
    }[baseline]


def fast_p_chart(subject: Subject, baseline: str) -> Chart | None:
    """The figure of a fast_p curve for each group of tasks: for each p, the share of the group's tasks that
    are more than p times as fast as the baseline. None if the subject does not have the baseline or no task
    is valid."""
    speedups = task_speedups(subject.rows, baseline)
    if baseline not in baselines_of(subject.plan) or not any(speedups):
        return None
    at = thresholds(speedups)
    tones = tones_of(subject.rows)
    lines = []
    for group in groups_of(subject.rows):
        mine = task_speedups(in_group(subject.rows, group), baseline)
        bands = fast_p_band(mine, at)
        lines.append(
            ChartLine(
                name=group if len(tones) > 1 else "",
                points=tuple((p, band.estimate) for p, band in zip(at, bands, strict=True)),
                tone=tones.get(group, "c6"),
                band=tuple((p, band.low, band.high) for p, band in zip(at, bands, strict=True)),
                steps=False,
            )
        )
    return LineChart(
        name=f"fast_p-{baseline}",
        title=f"fast_p against {named(baseline)}",
        x=ChartAxis("p: times as fast", at[0], at[-1], log=True, format="times"),
        y=ChartAxis("share of all tasks", 0.0, 1.0, format="percent", ticks=(0, 0.25, 0.5, 0.75, 1)),
        lines=tuple(lines),
        uprights=(1.0,),
        caption="The share of all tasks whose candidate is valid and more than p times as fast; the bands "
        "are 95% intervals from drawing the tasks anew. A task without a valid candidate never counts.",
    )


def speedup_chart(subject: Subject, baseline: str, tones: Mapping[str, Tone]) -> Chart | None:
    """Returns the figure of the speedups over `baseline` in a report on `subject`: one bar for each valid
    task and seed, the fastest first; None if there is none. `tones` are the colours of the groups of tasks.
    """
    valid = [(row, speedup) for row in subject.rows if (speedup := row.speedup(baseline)) is not None]
    if not valid:
        return None
    low, high = log_range([speedup for _, speedup in valid], 0.5, 2.0)
    bars = []
    for row, speedup in sorted(valid, key=lambda pair: -pair[1]):
        beside = row.beside_best if baseline == BEST else row.measured.get(baseline)
        interval = beside.speedup if beside else None
        bars.append(
            Bar(
                label=short_name(row, subject.rows),
                value=speedup,
                tone=tones.get(row.result.group, "c1"),
                low=interval.low if interval else None,
                high=interval.high if interval else None,
                tip=_tip(row, speedup, baseline),
            )
        )
    return Bars(
        name="speedup",
        title=f"Speedup by task against {named(baseline)}",
        axis=ChartAxis("speedup", low, high, log=True, format="times"),
        bars=tuple(bars),
        origin=1.0,
        legend=tuple(tones.items()),
        caption="The thin lines are the intervals of each measurement"
        + (": what the model's own error leaves open." if subject.modelled else "."),
    )


def roofline_chart(
    subject: Subject, paths: Mapping[str, Sequence[PathPoint]], tones: Mapping[str, Tone]
) -> Chart | None:
    """Returns a roofline plot with the candidates of up to 60 searches (PATHS_SHOWN), from the first to the
    best, joined by lines. So that all tasks fit into one plot, each task's floor (the least time that the GPU
    allows) is 1. None if `paths` has no candidates. `tones` are the colours of the groups of tasks."""
    rows = {row.result.job: row for row in subject.rows}
    known = [(rows[job], path) for job, path in paths.items() if path and job in rows]
    if not known:
        return None
    shown = sorted(known, key=lambda pair: -len(pair[1]))[:PATHS_SHOWN]
    points = [point for _, path in shown for point in path]
    x_low, x_high = log_range([p.intensity for p in points], 0.1, 4.0)
    y_low, _ = log_range([p.light for p in points], 0.05, 1.0)
    lines = [
        ChartLine(
            name="",
            points=tuple((point.intensity, point.light) for point in path),
            tone=tones.get(row.result.group, "c1"),
            dots=True,
            tips=tuple(_point_tip(row, path, index) for index in range(len(path))),
        )
        for row, path in shown
    ]
    left = max(x_low, y_low)
    return LineChart(
        name="roofline",
        title="Roofline, with each task's path to its best candidate",
        x=ChartAxis("intensity, 1 is the balance of the task's floor", x_low, x_high, log=True),
        y=ChartAxis("share of the speed of light", y_low, 1.5, log=True, format="percent"),
        lines=tuple(lines),
        references=(((left, left), (1.0, 1.0), (x_high, 1.0)),),
        caption="Each task's own floor is the unit. Right: fewer bytes moved. Up: less time. On the slope "
        "memory runs at its peak; at the flat part nothing is left to gain as the task is written. The "
        "large dot is the best candidate.",
    )


def light_chart(subject: Subject, tones: Mapping[str, Tone]) -> Chart | None:
    """Returns the figure of how near to the limit each search of `subject` got. One bar for each valid task
    and seed shows the floor (the least time that the GPU allows) divided by the best time; 1 is the limit.
    None if there is no valid task. `tones` are the colours of the groups of tasks."""
    bars = []
    for row in subject.rows:
        result = row.result
        if result.status == "valid" and result.best_us and result.floor_us:
            share = result.floor_us / result.best_us
            tip = f"{result.task}: {result.best_us:.1f} us, floor {result.floor_us:.1f} us"
            label = short_name(row, subject.rows)
            bars.append(Bar(label, share, tones.get(result.group, "c1"), tip=tip))
    if not bars:
        return None
    return Bars(
        name="light",
        title="Distance to the floor",
        axis=ChartAxis(
            "floor over time: 100% is the speed of light",
            0.0,
            1.25,
            format="percent",
            ticks=(0, 0.25, 0.5, 0.75, 1),
        ),
        bars=tuple(sorted(bars, key=lambda bar: -bar.value)),
        origin=0.0,
        legend=tuple(tones.items()),
        caption="The floor is what moving the bytes once, or the arithmetic as written, takes at the "
        "peak rate. Where algebra saves arithmetic, a candidate may be beyond it.",
    )


def cost_chart(subject: Subject, tones: Mapping[str, Tone]) -> Chart | None:
    """Returns the figure of what gains cost, with one dot for each valid search of `subject`. The horizontal
    axis is the search's cost: tokens if a model was used, else candidates judged. The vertical axis is its
    speedup over the first candidate. None if there is no valid search. `tones` are the colours of the groups
    of tasks."""
    valid = [row for row in subject.rows if row.result.status == "valid" and row.result.gain]
    if not valid:
        return None
    tokens = any(row.result.spent.tokens for row in valid)
    points = []
    for row in valid:
        spent = row.result.spent
        amount = float(spent.tokens if tokens else spent.evaluations)
        points.append((row, amount, row.result.gain or 1.0))
    low, high = log_range([gain for _, _, gain in points], 0.9, 2.0)
    most = max(amount for _, amount, _ in points)
    lines = []
    for group, tone in tones.items():
        mine = [point for point in points if point[0].result.group == group]
        lines.append(
            ChartLine(
                name=group,
                points=tuple((amount, gain) for _, amount, gain in mine),
                tone=tone,
                dots=True,
                joined=False,
                tips=tuple(f"{r.result.task}: {gain:.2f}x for {amount:g}" for r, amount, gain in mine),
            )
        )
    return LineChart(
        name="cost",
        title="Gain over the first candidate, by what it cost",
        x=ChartAxis("tokens" if tokens else "candidates judged", 0.0, most * 1.08, format="si"),
        y=ChartAxis("gain over the first candidate", low, high, log=True, format="times"),
        lines=tuple(lines),
        levels=(1.0,),
    )


def used_chart(usage: TechniqueUsage, what: str) -> Chart | None:
    """Returns the figure of what searches tried most, counted in `usage`. `what` is "techniques" or "states"
    (performance states); each has a bar, which shows how many attempts paid, gained nothing or failed. None
    if nothing was tried."""
    uses = usage.techniques if what == "techniques" else usage.states
    most = sorted(uses.items(), key=lambda item: (-item[1].attempts, item[0]))[:USED_SHOWN]
    if not most:
        return None
    return Stack(
        name=f"used-{what}",
        title="Applications by technique" if what == "techniques" else "Applications by state",
        label="applications",
        kinds=(("paid", "good"), ("no gain", "idle"), ("failed", "bad")),
        rows=tuple((name, (one.paid, one.idle, one.failed)) for name, one in most),
    )


def discovery_chart(steps: Sequence[Step]) -> Chart | None:
    """Returns the figure of how quickly searches found out what pays. The horizontal axis is the number of
    steps tried in all runs; the vertical one is how many different pairs of performance state and technique
    had gained something by then. None if there are no steps."""
    discovered = discovery_of(steps)
    if not discovered:
        return None
    every = max(1, len(discovered) // 300)
    points = tuple((float(n), float(pairs)) for n, pairs in [*discovered[::every], discovered[-1]])
    return LineChart(
        name="discovery",
        title="Discovery: what was found to pay",
        x=ChartAxis("applications", 0.0, float(len(discovered)), format="si"),
        y=ChartAxis("techniques in states", 0.0, max(1.0, discovered[-1][1] * 1.08), format="si"),
        lines=(ChartLine("", points, steps=True),),
        caption="How many techniques, each in each state, had paid at least once.",
    )


def short_name(row: Row, rows: Sequence[Row]) -> str:
    """Returns a search's name for a figure: the last part of its task's name, "softmax", and if `rows` have
    several seeds, the seed: "softmax #2"."""
    name = row.result.task.split("/")[-1]
    several = len({other.result.seed for other in rows}) > 1
    return f"{name} #{row.result.seed}" if several else name


def _tip(row: Row, speedup: float, baseline: str) -> str:
    """The tooltip of a bar in the chart of speedups: the task, its speedup over `baseline`, and the
    techniques applied."""
    result = row.result
    applied = ", ".join(result.applied) or "nothing applied"
    return f"{result.task}: {speedup:.2f}x against {named(baseline)}; {applied}"


def _point_tip(row: Row, path: Sequence[PathPoint], index: int) -> str:
    """The tooltip of a point in the roofline chart: technique, time, and gain over the point before, in
    doublings. `path` are a search's points, `index` says which one."""
    point = path[index]
    gain = path[index - 1].us / point.us if index else 1.0
    step = f" ({'+' if gain > 1 else ''}{log2(gain):.2f} doublings)" if index else ""
    return f"{row.result.task}: {point.technique}, {point.us:.1f} us{step}"
