"""One run in all its detail: every candidate with its source, verdict and profile, and every step."""

from dataclasses import dataclass
from typing import Any

from kernelblaster.devices.specs import spec_named
from kernelblaster.errors import StoreError
from kernelblaster.records import Step
from kernelblaster.store.run import Run

KERNELS_SHOWN = 12
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
    """A candidate on the way to the best: how far its memory traffic and its time are from the floor.
    `intensity` is the floor's time over the time that its bytes take at the peak rate; `light` the floor's
    time over its own."""

    technique: str
    intensity: float
    light: float
    us: float


@dataclass(frozen=True)
class Detail:
    """`page` is what the page shows of the run on request; `steps` and `path` are for figures."""

    page: dict[str, Any]
    steps: list[Step]
    path: list[PathPoint]
    learned: dict[str, Any] | None


def detail_of(run: Run) -> Detail:
    profiles = {event.key: event.data["profile"] for event in run.events if event.kind == "profile"}
    recorded = [(event.key, event.data) for event in run.events if event.kind == "evaluation"]
    numbers = {code: number for number, (code, _) in enumerate(recorded)}
    candidates = [
        _candidate(data["evaluation"], data["evaluation"].get("profile") or profiles.get(code))
        for code, data in recorded
    ]
    steps = [Step.model_validate(s) for e in run.events if e.kind == "steps" for s in e.data["steps"]]
    end = next((event.data for event in run.events if event.kind == "results"), None)
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
    way = _way(steps, numbers, best)
    path = [point for name, number in way if (point := _point(name, candidates[number])) is not None]
    return Detail(page, steps, path, end["learned"] if end else None)


def _candidate(verdict: dict[str, Any], profile: dict[str, Any] | None) -> dict[str, Any]:
    outcome, timing = verdict["outcome"], verdict["timing"]
    told: dict[str, Any] = {"outcome": outcome["kind"]}
    if "speedup" in outcome:
        told["speedup"] = _rounded(outcome["speedup"]["estimate"])
    elif outcome.get("reason"):
        told["reason"] = f"{outcome['reason']}\n{outcome.get('evidence') or outcome.get('log') or ''}"[
            :600
        ].strip()
    if timing:
        told |= {"us": _rounded(timing["candidate_us"]), "floor_us": _rounded(timing["floor_us"])}
        told["device"] = verdict["device"]
    if profile:
        told["kernels"] = [kernel_figures(kernel) for kernel in profile["kernels"][:KERNELS_SHOWN]]
        told["tier"] = profile["tier"]
    return told


def kernel_figures(kernel: dict[str, Any]) -> dict[str, Any]:
    """Of a kernel's profile, the figures that are shown, by the short names of METRICS."""
    told: dict[str, Any] = {"name": kernel["name"][:80]}
    for metric in kernel["metrics"]:
        short = METRICS.get(metric["name"])
        if short and isinstance(metric["value"], float):
            told.setdefault(short, _rounded(metric["value"] * SCALE.get(metric["unit"], 1.0)))
    return told


def _step(step: Step, numbers: dict[str, int]) -> list[Any]:
    result = step.failure if step.log_speedup is None else _rounded(step.log_speedup)
    named = [str(step.id), step.state, step.technique, _rounded(step.predicted), result, int(step.taken)]
    return [*named, numbers.get(step.parent), numbers.get(step.child), step.kernel, _rounded(step.share)]


def _source(run: Run, name: str) -> str:
    try:
        return run.files.get(name)
    except StoreError as error:
        return f"// {error}"


def _learned(learned: dict[str, Any]) -> dict[str, Any]:
    return {name: learned[name] for name in ("from", "to", "states", "techniques", "reasons")}


def _way(steps: list[Step], numbers: dict[str, int], best: int | None) -> list[tuple[str, int]]:
    """From the candidate that it began with to the best: (technique, number of the candidate)."""
    if best is None:
        return []
    came_from = {numbers[s.child]: s for s in reversed(steps) if s.child in numbers and s.parent in numbers}
    way: list[tuple[str, int]] = []
    at = best
    while at in came_from and len(way) < len(steps):
        step = came_from[at]
        way.append((step.technique, at))
        at = numbers[step.parent]
    return [("first", at), *reversed(way)]


def _point(technique: str, candidate: dict[str, Any]) -> PathPoint | None:
    """Where a candidate stands under the roof; None where its bytes were not counted."""
    kernels = candidate.get("kernels") or []
    moved = sum(kernel.get("read", 0.0) + kernel.get("written", 0.0) for kernel in kernels)
    spec = spec_named(str(candidate.get("device", "")).removeprefix("PTX machine (").removesuffix(")"))
    if not moved or spec is None or "us" not in candidate:
        return None
    moving_us = moved / (spec.dram_gb_s * 1e3)
    floor_us, us = candidate["floor_us"], candidate["us"]
    return PathPoint(technique, floor_us / moving_us, floor_us / us, us)


def _rounded(value: float) -> float:
    """Four digits are more than any of these numbers is worth."""
    return float(f"{value:.4g}")
