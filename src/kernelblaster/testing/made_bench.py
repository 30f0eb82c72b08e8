"""Writes the record of a bench (searches over many tasks) of any size with invented numbers, without
searching: for viewing and measuring reports."""

from math import log
from pathlib import Path
from random import Random
from typing import Any

from kernelblaster.bench.bench import Bench
from kernelblaster.bench.jobs import INITIAL, Job, JobResult, Measured, Setup, Spent, result_of
from kernelblaster.bench.record import BenchPlan
from kernelblaster.bench.suite import Entry
from kernelblaster.records import Candidate
from kernelblaster.records.outcome import Speedup
from kernelblaster.sessions.settings import Search
from kernelblaster.store.run import LOG, Run

STATES = (
    "latency",
    "memory-bandwidth",
    "uncoalesced-access/bank-conflicts+intermediate-traffic+low-occupancy+register-limited",
    "fp32-pipe",
    "launch-overhead",
)
TECHNIQUES = (
    "vectorized_memory_access",
    "kernel_fusion",
    "shared_memory_tiling",
    "unrolling",
    "tensor_core_utilization",
    "warp_shuffle_reduction",
    "fast_math",
    "block_shape",
)
METRICS = (
    "Duration",
    "DRAM Throughput",
    "Compute (SM) Throughput",
    "L2 Cache Throughput",
    "Achieved Occupancy",
    "Registers Per Thread",
    "dram__bytes_read.sum",
    "dram__bytes_write.sum",
    *(f"smsp__counted_{number}.sum" for number in range(42)),
)
FLOOR_US = 100.0
OTHERS = ("uncovered", "unfit", "broken", "failed")


def made_bench(folder: Path, tasks: int, steps: int, seed: int = 0) -> Bench:
    """Create the record of a finished bench in `folder`, with this many tasks in three levels and this many
    search steps per task; one task in eight has no candidate. All numbers are invented; the same seed gives
    the same."""
    random = Random(seed)
    entries = tuple(
        Entry(
            name=f"made/level{1 + number % 3}/task_{number}",
            path="",
            group=f"level{1 + number % 3}",
            number=number,
        )
        for number in range(tasks)
    )
    setup = Setup(device="cuda", search=Search(evaluations=steps + 1), knowledge="")
    plan = BenchPlan(
        suites=("made",), entries=entries, setup=setup, baselines=("eager", "compile", "max-autotune")
    )
    bench = Bench.open(folder, plan)
    for number, job in enumerate(plan.jobs):
        if number % 8 == 7:
            result = result_of(job, OTHERS[number // 8 % 4], "it has operators that nobody knows")  # type: ignore[arg-type]
        else:
            result = _searched(folder, job, steps, random)
        bench._run.once("result", job.key, lambda r=result: r.model_dump(mode="json"))  # type: ignore[misc]
        for one in _measured(result, random):
            bench._run.once("measured", f"{one.job} {one.baseline}", lambda o=one: o.model_dump(mode="json"))  # type: ignore[misc]
    return bench


def _searched(folder: Path, job: Job, steps: int, random: Random) -> JobResult:
    """Write the record of one invented search of `steps` steps under `folder`; returns the result of its
    job."""
    run_folder = folder / "runs" / job.file_name
    run_folder.mkdir(parents=True)
    (run_folder / LOG).touch()
    lines = [f"    // {job.entry.name}, line {number}: {random.random()}" for number in range(110)]
    at, best, best_us, first_us = 0, 0, 0.0, 60 * FLOOR_US
    times, sources, recorded = [first_us], [list(lines)], []
    with Run(run_folder, writing=True) as run:
        run.append("created", job=job.key, task=job.entry.name, device="cuda", gpu=None)
        codes = [_evaluation(run, sources[0], first_us)]
        applied: dict[int, tuple[str, ...]] = {0: ()}
        for number in range(steps):
            technique, gain = random.choice(TECHNIQUES), random.lognormvariate(0.12, 0.3)
            us = max(FLOOR_US * 1.02, times[at] / gain)
            changed = list(sources[at])
            for _ in range(4):
                changed[random.randrange(len(changed))] = f"    {technique}({random.random()});"
            failed = random.random() < 0.15
            sources.append(changed)
            times.append(us)
            codes.append(_evaluation(run, changed, us, failed=failed))
            taken = not failed and us < times[at]
            recorded.append(
                {
                    "id": f"0/0/{number}/0",
                    "state": random.choice(STATES),
                    "technique": technique,
                    "predicted": 1.2,
                    "result": "CompileFailed" if failed else log(times[at] / us),
                    "taken": taken,
                    "kernel": "made_kernel",
                    "before": list(applied[at]),
                    "parent": codes[at],
                    "child": codes[-1],
                }
            )
            applied[number + 1] = (*applied[at], technique)
            if taken:
                at = number + 1
            elif random.random() < 0.1:
                at = random.choice([index for index in range(number + 1) if times[index] <= first_us])
        run.once("steps", "all", lambda: {"steps": recorded})
        good = [
            index
            for index in range(steps + 1)
            if index == 0 or isinstance(recorded[index - 1]["result"], float)
        ]
        best = min(good, key=lambda index: times[index])
        best_us = times[best]
        learned = {"from": 0, "to": 1, "states": [], "techniques": _learned(recorded), "reasons": []}
        run.once(
            "results",
            "end",
            lambda: {"best": codes[best], "applied": list(applied[best]), "learned": learned},
        )
    return JobResult(
        job=job.key,
        arm=job.arm,
        task=job.entry.name,
        group=job.entry.group,
        seed=0,
        status="valid",
        run=run_folder.name,
        device="NVIDIA H200",
        first_us=first_us,
        best_us=best_us,
        baseline_us=3 * FLOOR_US,
        floor_us=FLOOR_US,
        gain=first_us / best_us,
        applied=applied[best],
        judged=tuple(3 * FLOOR_US / us for us in times),
        spent=Spent(evaluations=steps + 1, device_seconds=steps * 0.8, seconds=steps * 2.0),
    )


def _evaluation(run: Run, lines: list[str], us: float, *, failed: bool = False) -> str:
    """Record in `run` an invented evaluation of a kernel with these source lines, of `us` microseconds
    (`failed`: it did not compile); returns the candidate's code, the short hash that names it."""
    source = "__global__ void made_kernel(float* out) {\n" + "\n".join(lines) + "\n}\n"
    code = Candidate(source=source).code
    speedup = {"estimate": 3 * FLOOR_US / us, "low": 2.9 * FLOOR_US / us, "high": 3.1 * FLOOR_US / us}
    outcome: dict[str, Any] = {"kind": _judged(speedup["low"]), "speedup": speedup | {"confidence": 0.99}}
    if failed:
        outcome = {"kind": "CompileFailed", "reason": "it does not compile", "log": "error: expected ;"}
    timing = {"candidate_us": us, "baseline_us": 3 * FLOOR_US, "floor_us": FLOOR_US, "modelled": False}
    evaluation = {"task": "made", "device": "NVIDIA H200", "outcome": outcome, "device_seconds": 0.8}
    evaluation |= {"timing": None if failed else timing, "profile": None if failed else _profile(us)}
    data = {"source": run.files.put(source), "evaluation": evaluation}
    run.once("evaluation", code, lambda: data)
    return code


def _judged(low: float) -> str:
    """The outcome of a correct candidate whose speedup interval begins at `low`: "Accepted" above 1, else
    "Slower"."""
    return "Accepted" if low > 1 else "Slower"


def _profile(us: float) -> dict[str, Any]:
    """An invented profile of a single kernel that takes `us` microseconds, as the JSON data that runs
    store."""
    moved = 0.5 * (FLOOR_US + us) * 4800e3 / 2
    values = [us, 100 * FLOOR_US / us, 30.0, 20.0, 60.0, 32.0, moved * 0.6, moved * 0.4]
    metrics = [
        {
            "name": name,
            "unit": "us" if name == "Duration" else "",
            "value": value,
            "tier": "ncu",
            "section": "s",
        }
        for name, value in zip(METRICS, [*values, *map(float, range(42))], strict=True)
    ]
    return {
        "device": "NVIDIA H200",
        "tier": "ncu",
        "kernels": [{"name": "made_kernel(float *)", "metrics": metrics}],
    }


def _learned(steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns invented data on what a run taught its knowledge base, in the form that runs record: one entry
    for each pair of state and technique in its steps."""
    score = {"speedup": 1.3, "valid_chance": 0.9, "attempts": 3.0}
    pairs = dict.fromkeys((step["state"], step["technique"]) for step in steps)
    return [{"state": s, "technique": t, "before": None, "after": score} for s, t in pairs]


def _measured(result: JobResult, random: Random) -> list[Measured]:
    """Invented final measurements of a job's best candidate against each baseline (eager PyTorch,
    torch.compile, max-autotune) and against the search's first candidate; empty if there is no best one."""
    if result.best_us is None:
        return []
    found = []
    for name, factor in (("eager", 3.0), ("compile", 2.2), ("max-autotune", 2.0)):
        baseline_us = factor * FLOOR_US * random.uniform(0.6, 1.5)
        estimate = baseline_us / result.best_us
        speedup = Speedup(estimate=estimate, low=0.97 * estimate, high=1.03 * estimate, confidence=0.99)
        found.append(
            Measured(
                job=result.job,
                baseline=name,
                outcome=_judged(speedup.low),
                speedup=speedup,
                us=result.best_us,
                baseline_us=baseline_us,
                floor_us=FLOOR_US,
            )
        )
    gain = result.gain or 1.0
    over = Speedup(estimate=gain, low=gain, high=gain, confidence=0.99)
    return [
        *found,
        found[0].model_copy(update={"baseline": INITIAL, "speedup": over, "baseline_us": result.first_us}),
    ]
