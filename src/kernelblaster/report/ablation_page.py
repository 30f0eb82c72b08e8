"""The report of an ablation (a comparison of ways to search), as HTML and as Markdown: curves, tables, and a
sentence on each claim of the MAIC-RL paper."""

from typing import Any

from kernelblaster.bench.ablation import Ablation
from kernelblaster.bench.findings import ArmFindings, StudyFindings, summarize_study
from kernelblaster.bench.metrics import Interval
from kernelblaster.report.chart import TONES, Bar, Bars, Chart, ChartAxis, ChartLine, LineChart
from kernelblaster.report.csv_markdown import table
from kernelblaster.report.rendering import render_page
from kernelblaster.report.table import text_table

COLUMNS = (
    "arm",
    "searches",
    "evaluations until 95%",
    "missed",
    "best, against the baseline",
    "gain over the first: quartiles",
)
TOKENS = "tokens a search"
NOT_STUDIED = "Not studied"
NOT_STUDIED_COLUMNS = ("task", "status", "reason")
TAGS = {"agrees": "good", "contradicts": "bad", "undecided": "idle", "no claim": ""}


def summarize_studies(ablation: Ablation) -> list[StudyFindings]:
    """Returns the results so far of each study of the ablation: statistics of the ways to search ("arms")
    that it compares on the same tasks, and what they say about each claim of the MAIC-RL paper."""
    return [summarize_study(ablation, study) for study in ablation.studies]


def ablation_markdown(ablation: Ablation) -> str:
    """The report on an ablation as Markdown: for each study its table and the answers to its claims, then the
    tasks that could not be studied. No figures."""
    lines = ["# Learning studies", "", _about(ablation), ""]
    for findings in summarize_studies(ablation):
        lines += [f"## {findings.study.title}", "", _scope(findings), ""]
        lines += [*table(*arms_table(findings)), ""]
        lines += [f"- {answer.sentence}" for answer in findings.answers]
        if findings.left_out:
            lines += ["", f"Left out: {_left_out(findings)}."]
        lines.append("")
    if ablation.plan.left_out:
        lines += [f"## {NOT_STUDIED}", "", *table(NOT_STUDIED_COLUMNS, _not_studied(ablation)), ""]
    return "\n".join(lines)


def ablation_page(ablation: Ablation, made: str = "") -> str:
    """The report on an ablation as one HTML file that needs nothing else, figures included. `made` is a text
    on when or how it was made."""
    return render_page(
        "ablation.html",
        title="Learning studies",
        made=made,
        lead=_about(ablation),
        studies=[_shown(findings) for findings in summarize_studies(ablation)],
        not_studied=text_table(NOT_STUDIED_COLUMNS, rows) if (rows := _not_studied(ablation)) else None,
        not_studied_title=NOT_STUDIED,
    )


def charts_of(findings: StudyFindings) -> list[Chart]:
    """Returns the two figures of the study with these `findings`, or none if no arm (way to search) has
    results. Both compare a search with the goal of its task: the best speedup that any search of the task
    reached. The first figure shows the best speedup so far as a share of the goal, after 1, 2, ... candidates
    judged. The second shows how many candidates each arm judges until the share is 95 %."""
    arms = [arm for arm in findings.arms if arm.curve]
    if not arms:
        return []
    tones = {arm.name: TONES[index % len(TONES)] for index, arm in enumerate(findings.arms)}
    least = min(point.low for arm in arms for point in arm.curve)
    curves = LineChart(
        name=f"{findings.study.name}-curve",
        title="How near the best so far is to the best of all",
        x=ChartAxis("candidates judged", 1.0, float(max(2, findings.budget))),
        y=ChartAxis("share of the best", min(0.9, least), 1.0, format="percent"),
        lines=tuple(
            ChartLine(
                arm.name,
                tuple((n, p.estimate) for n, p in enumerate(arm.curve, 1)),
                tones[arm.name],
                tuple((n, p.low, p.high) for n, p in enumerate(arm.curve, 1)),
            )
            for arm in arms
        ),
        caption="Geometric means over tasks; the bands are 95% intervals from drawing the tasks anew.",
    )
    bars = Bars(
        name=f"{findings.study.name}-evaluations",
        title="Evaluations until 95% of the best",
        axis=ChartAxis("evaluations", 0.0, float(findings.budget) * 1.05),
        bars=tuple(
            Bar(arm.name, e.estimate, tones[arm.name], e.low, e.high)
            for arm in arms
            if (e := arm.evaluations) is not None
        ),
        origin=0.0,
        caption="A search that never got there counts with its whole budget.",
    )
    return [curves, bars]


def arms_table(findings: StudyFindings) -> tuple[list[str], list[list[str]]]:
    """Returns the table of the study with these `findings`, as (column titles, rows of cells), with a row for
    each arm (way to search) and a column for tokens if a model was used."""
    rows = [_cells(arm) for arm in findings.arms]
    if all(arm.tokens is None for arm in findings.arms):
        return list(COLUMNS), rows
    tokens = [_interval(arm.tokens, 0) for arm in findings.arms]
    return [*COLUMNS, TOKENS], [[*row, cell] for row, cell in zip(rows, tokens, strict=True)]


def _cells(arm: ArmFindings) -> list[str]:
    """One table row: the numbers of an arm (one way to search) as texts in the order of COLUMNS; empty where
    there is no data."""
    gain = "" if arm.gain is None else " / ".join(f"{value:.2f}x" for value in arm.gain)
    return [
        arm.name,
        str(arm.searches),
        _interval(arm.evaluations, 1),
        str(arm.missed),
        _interval(arm.best, 3),
        gain,
    ]


def _shown(findings: StudyFindings) -> dict[str, Any]:
    """A study prepared for the HTML template: title, table, answers and charts, by the names that the
    template uses."""
    return {
        "name": findings.study.name,
        "title": findings.study.title,
        "scope": _scope(findings),
        "table": text_table(*arms_table(findings)),
        "answers": [(TAGS[answer.verdict], answer.verdict, answer.sentence) for answer in findings.answers],
        "charts": charts_of(findings),
        "left_out": _left_out(findings),
    }


def _not_studied(ablation: Ablation) -> list[list[str]]:
    """Table rows for the tasks that no arm (way to search) could search: name, status and reason, in the
    order of NOT_STUDIED_COLUMNS."""
    return [[one.name, one.status, one.reason] for one in ablation.plan.left_out]


def _about(ablation: Ablation) -> str:
    """One sentence on how large the ablation is: number of tasks, suites, GPU, model, seeds, candidates for
    each search."""
    plan = ablation.plan
    where = plan.setup.gpu or plan.setup.device
    how = ", times modelled" if plan.setup.device == "emulated" else ""
    how += f", with {plan.setup.model}" if plan.setup.model else ""
    left_out = f" ({len(plan.left_out)} could not be studied)" if plan.left_out else ""
    return (
        f"{len(plan.entries)} tasks of {', '.join(plan.suites)}{left_out} on {where}{how}; {len(plan.seeds)} "
        f"seeds; at most {plan.setup.search.evaluations} candidates for each search."
    )


def _scope(findings: StudyFindings) -> str:
    """One sentence on which searches a study's figures are made of: the tasks and seeds for which every arm
    (way to search) has a result."""
    trained = "; the other half of the tasks was trained on" if findings.study.trains else ""
    seeds = (
        f"{findings.seeds} of {findings.planned}"
        if findings.seeds < findings.planned
        else str(findings.seeds)
    )
    return f"{findings.tasks} tasks with {seeds} seeds in every arm{trained}."


def _left_out(findings: StudyFindings) -> str:
    """The tasks without a result in some arm (way to search), as text: "reason: task, task; reason: ...";
    empty if there are none."""
    reasons: dict[str, list[str]] = {}
    for task, reason in findings.left_out.items():
        reasons.setdefault(reason.split(":")[0], []).append(task.split("/")[-1])
    return "; ".join(f"{reason}: {', '.join(tasks)}" for reason, tasks in sorted(reasons.items()))


def _interval(interval: Interval | None, digits: int) -> str:
    """An estimate and its confidence interval as text, like `1.23 (1.10 to 1.37)`, with `digits` digits after
    the point; empty for None."""
    if interval is None:
        return ""
    return f"{interval.estimate:.{digits}f} ({interval.low:.{digits}f} to {interval.high:.{digits}f})"
