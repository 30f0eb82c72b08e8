"""The details of one run: every candidate with source, verdict and profile, and every step."""

from dataclasses import dataclass
from typing import Any

from kernelblaster.devices.specs import spec_named
from kernelblaster.errors import StoreError
from kernelblaster.records import Step
from kernelblaster.store.history import conclusion
from kernelblaster.store.run import Run

KERNELS_SHOWN = 12
PARENT, CHILD = 6, 7  # where a step's list in the page's data has the numbers of its candidates
METRICS = {
    "Duration": "us",
    "DRAM Throughput": "dram",
    "Compute (SM) Throughput": "compute",
    "Issue Slots Busy": "issue",
    "L1/TEX Cache Throughput": "l1",
    "L2 Cache Throughput": "l2",
    "Achieved Occupancy": "occupancy",
    "Registers Per Thread": "registers",
    "ptxas Spill Stores": "spills",
    "smsp__inst_executed.sum": "instructions",
    "dram__bytes_read.sum": "read",
    "dram__bytes_write.sum": "written",
}
SCALE = {"ns": 1e-3, "us": 1.0, "ms": 1e3, "s": 1e6, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9}


@dataclass(frozen=True)
class PathPoint:
    """A candidate on the way to the best, as a point of a roofline in which the task's floor is the unit:
    `intensity` is the floor's time over the time that its memory traffic takes at peak bandwidth, `light` the
    floor's time over its own time `us`. `technique` led to it; `first` for the first candidate."""

    technique: str
    intensity: float
    light: float
    us: float


@dataclass(frozen=True)
class Detail:
    """What a report takes from one run: `page` is JSON data that the page shows on request; `steps`, `path`
    (to the best candidate) and `learned` (None until the run has ended) are for figures and tables."""

    page: dict[str, Any]
    steps: list[Step]
    path: list[PathPoint]
    learned: dict[str, Any] | None


def detail_of(run: Run) -> Detail:
    """Read the details of a run from its events."""
    profiles = {event.key: event.data["profile"] for event in run.events if event.kind == "profile"}
    recorded = [(event.key, event.data) for event in run.events if event.kind == "evaluation"]
    numbers = {code: number for number, (code, _) in enumerate(recorded)}
    candidates = [
        _candidate(data["evaluation"], data["evaluation"].get("profile") or profiles.get(code))
        for code, data in recorded
    ]
    steps = [Step.model_validate(s) for e in run.events if e.kind == "steps" for s in e.data["steps"]]
    end = conclusion(run.events, "results")
    best = numbers.get(end["best"]) if end else None
    page = {
        "run": run.name,
        "best": best,
        "applied": end["applied"] if end else [],
        "candidates": candidates,
        "steps": [_step(step, numbers) for step in steps],
        "sources": [_source(run, data["source"]) for _, data in recorded],
        "learned": _learned(end["learned"]) if end else None,
    }
    way_up = _path_to(steps, numbers, best)
    path = [point for name, number in way_up if (point := _point(name, candidates[number])) is not None]
    return Detail(page, steps, path, end["learned"] if end else None)


def _candidate(verdict: dict[str, Any], profile: dict[str, Any] | None) -> dict[str, Any]:
    """A judged candidate as JSON data: outcome, speedup or reason, times, and the figures of its kernels.
    `verdict` and `profile` are recorded data; None: not profiled."""
    outcome, timing = verdict["outcome"], verdict["timing"]
    shown: dict[str, Any] = {"outcome": outcome["kind"]}
    if "speedup" in outcome:
        shown["speedup"] = _rounded(outcome["speedup"]["estimate"])
    elif outcome.get("reason"):
        shown["reason"] = f"{outcome['reason']}\n{outcome.get('evidence') or outcome.get('log') or ''}"[
            :600
        ].strip()
    if timing:
        shown |= {"us": _rounded(timing["candidate_us"]), "floor_us": _rounded(timing["floor_us"])}
        shown["device"] = verdict["device"]
    if profile:
        shown["kernels"] = [kernel_figures(kernel) for kernel in profile["kernels"][:KERNELS_SHOWN]]
        shown["tier"] = profile["tier"]
    return shown


def kernel_figures(kernel: dict[str, Any]) -> dict[str, Any]:
    """The displayed metrics of a kernel's recorded profile by the short names of METRICS, times in us and
    sizes in bytes; metrics that were not measured are missing."""
    figures: dict[str, Any] = {"name": kernel["name"][:80]}
    for metric in kernel["metrics"]:
        short = METRICS.get(metric["name"])
        if short and isinstance(metric["value"], float):
            figures.setdefault(short, _rounded(metric["value"] * SCALE.get(metric["unit"], 1.0)))
    return figures


def _step(step: Step, numbers: dict[str, int]) -> list[Any]:
    """A step as a JSON list, in the order that the page's script expects; `numbers` are candidates' positions
    by code."""
    result = step.failure if step.log_speedup is None else _rounded(step.log_speedup)
    named = [str(step.id), step.state, step.technique, _rounded(step.predicted), result, int(step.taken)]
    return [*named, numbers.get(step.parent), numbers.get(step.child), step.kernel, _rounded(step.share)]


def _source(run: Run, name: str) -> str:
    """The text of a recorded file; a comment with the error if it is missing."""
    try:
        return run.files.get(name)
    except StoreError as error:
        return f"// {error}"


def _learned(learned: dict[str, Any]) -> dict[str, Any]:
    """The parts of what a run learned that the page shows."""
    return {name: learned[name] for name in ("from", "to", "states", "techniques", "reasons")}


def _path_to(steps: list[Step], numbers: dict[str, int], best: int | None) -> list[tuple[str, int]]:
    """The path from the first candidate to the best, as (technique, position of the candidate); empty if
    `best` is None. `numbers` are positions by code."""
    if best is None:
        return []
    came_from = {numbers[s.child]: s for s in reversed(steps) if s.child in numbers and s.parent in numbers}
    path: list[tuple[str, int]] = []
    index = best
    while index in came_from and len(path) < len(steps):
        step = came_from[index]
        path.append((step.technique, index))
        index = numbers[step.parent]
    return [("first", index), *reversed(path)]


def _point(technique: str, candidate: dict[str, Any]) -> PathPoint | None:
    """A candidate's point in the roofline; None if its memory traffic was not counted or its GPU is not
    known."""
    kernels = candidate.get("kernels") or []
    moved = sum(kernel.get("read", 0.0) + kernel.get("written", 0.0) for kernel in kernels)
    spec = spec_named(str(candidate.get("device", "")).removeprefix("PTX machine (").removesuffix(")"))
    if not moved or spec is None or "us" not in candidate:
        return None
    moving_us = moved / (spec.dram_gb_s * 1e3)
    floor_us, us = candidate["floor_us"], candidate["us"]
    return PathPoint(technique, floor_us / moving_us, floor_us / us, us)


def _rounded(value: float) -> float:
    """Rounded to four significant digits."""
    return float(f"{value:.4g}")
