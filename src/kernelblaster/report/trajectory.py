"""Reads what a report on many runs shows of each run: its steps as a tree, its sources, and the path to its
best."""

from dataclasses import dataclass
from typing import Any

from kernelblaster.devices.specs import spec_named
from kernelblaster.records import Step
from kernelblaster.report.kernel_figures import kernel_figures
from kernelblaster.report.run.exchanges import exchanges_of
from kernelblaster.report.run.page import sources_of
from kernelblaster.report.run.steps import StepDetail, StepRow, Tree
from kernelblaster.store.history import History, JudgedCandidate
from kernelblaster.store.run import Run


@dataclass(frozen=True)
class PathPoint:
    """A candidate on the way to the best one, as a point of a roofline plot. `us` is its time in
    microseconds. The other numbers are relative to its task's floor, the least time that the GPU allows.
    `light` is the floor divided by `us`, 1 at the limit. `intensity` is the floor divided by the time that
    the candidate's memory traffic takes at peak bandwidth. `technique` made it from the candidate before;
    "first" for the first one."""

    technique: str
    intensity: float
    light: float
    us: float


@dataclass(frozen=True)
class Detail:
    """What a report on many runs takes from one of them. `steps` are its steps. `tree` has its candidates,
    line by line, with the details of each line. `sources` are the texts of the candidates by the names of
    their files. `path` leads from the first candidate to the best; `learned` is what the run taught the
    knowledge base. While the run has not ended, `path` is empty and `learned` None."""

    steps: list[Step]
    tree: list[tuple[StepRow, StepDetail]]
    sources: dict[str, str]
    path: list[PathPoint]
    learned: dict[str, Any] | None


def detail_of(run: Run) -> Detail:
    """Returns what a report on many runs shows of `run`: its steps, its candidates with their sources, the
    path to the best one, and what was learned. Read from the run's log; the run may still be going on."""
    history = History(run)
    tree = Tree(run, history, exchanges_of(run.events))
    lines = [(row, tree.detail(row.id)) for row in tree.rows]
    path = _path(run, history) if history.learned is not None else []
    return Detail(history.steps, lines, sources_of(run, history), path, history.learned)


def _path(run: Run, history: History) -> list[PathPoint]:
    """The points of a roofline plot for the candidates of a run from the first to the best; those whose
    memory traffic or GPU is not known are left out."""
    judged = {one.code: one for one in history.judged}
    profiles = {event.key: event.data["profile"] for event in run.events if event.kind == "profile"}
    points = []
    for technique, code in _way(history, judged):
        one = judged[code]
        point = _point(technique, one, one.verdict.get("profile") or profiles.get(code))
        if point is not None:
            points.append(point)
    return points


def _way(history: History, judged: dict[str, JudgedCandidate]) -> list[tuple[str, str]]:
    """The path of a search from its first candidate to its best, as (technique, code of the candidate); empty
    if there is no best. `judged` are its candidates by code."""
    best, steps = history.best, history.steps
    if best is None:
        return []
    came_from = {
        step.child: step for step in reversed(steps) if step.child in judged and step.parent in judged
    }
    way: list[tuple[str, str]] = []
    code = best.code
    while code in came_from and len(way) < len(steps):
        way.append((came_from[code].technique, code))
        code = came_from[code].parent
    return [("first", code), *reversed(way)]


def _point(technique: str, judged: JudgedCandidate, profile: dict[str, Any] | None) -> PathPoint | None:
    """A candidate as a point of a roofline plot, reached by `technique`, from its verdict and `profile`; None
    if its memory traffic was not counted or its GPU is not known."""
    figures = [kernel_figures(kernel) for kernel in (profile or {"kernels": ()})["kernels"]]
    moved = sum(kernel.get("read", 0.0) + kernel.get("written", 0.0) for kernel in figures)
    device = str(judged.verdict.get("device", "")).removeprefix("PTX machine (").removesuffix(")")
    spec, timing = spec_named(device), judged.verdict.get("timing")
    if not moved or spec is None or not timing:
        return None
    floor_us, us = timing["floor_us"], timing["candidate_us"]
    return PathPoint(technique, floor_us / (moved / (spec.dram_gb_s * 1e3)), floor_us / us, us)
