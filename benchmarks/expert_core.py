"""What fixed lists of techniques reach on a suite, against the better of eager PyTorch and torch.compile.

    python benchmarks/expert_core.py paths [TASK ...] --folder F
    python benchmarks/expert_core.py compare --folder F [--out results/expert-core.md] [--seconds S]

`paths` judges a few fixed lists of techniques (expert_kernels.py) on every task that the policy covers, and
keeps the best candidates in the folder. `compare` judges each of them afresh, once beside eager and once
beside torch.compile, and writes the table. A task that fails counts as 1x, and is listed. What the loop
finds by itself is what `kernelblaster bench` tells.
"""

import argparse
import json
import multiprocessing
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from math import exp, log
from pathlib import Path
from typing import Any

from expert_kernels import PATHS, jobs_of

from kernelblaster.api import load_task, open_judge
from kernelblaster.policies.expert.lower import UncoveredOperators
from kernelblaster.policies.expert.unify import NotUniform
from kernelblaster.records import Candidate, Evaluation
from kernelblaster.records.outcome import CORRECT
from kernelblaster.tasks.catalog import find

context = multiprocessing.get_context("spawn")


def follow_paths(options: argparse.Namespace) -> None:
    options.folder.mkdir(parents=True, exist_ok=True)
    jobs = []
    for given in options.tasks or ["core"]:
        for name, _ in find(given):
            try:
                jobs += jobs_of(name, list(PATHS))
            except (UncoveredOperators, NotUniform) as error:
                print(f"{name}: {error}", flush=True)
    best: dict[str, dict[str, Any]] = {}
    with open_judge(options.device) as judge:
        judged = judge.evaluate_many([(job.task, job.candidate) for job in jobs])
        for job, evaluation in zip(jobs, judged, strict=True):
            name, outcome = job.task.name, evaluation.outcome
            speedup = outcome.speedup.estimate if isinstance(outcome, CORRECT) else 0.0
            print(f"{name:48} {outcome.kind:12} {speedup:6.2f} {', '.join(job.applied)}", flush=True)
            row = {"task": name, "result": outcome.kind, "applied": job.applied, "speedup": speedup}
            row |= {"source": job.candidate.source, "evaluations": best.get(name, {}).get("evaluations", 0)}
            if name not in best or speedup > best[name]["speedup"]:
                best[name] = row
            best[name]["evaluations"] = row["evaluations"] + 1
    with (options.folder / "best.jsonl").open("w") as file:
        file.writelines(json.dumps(row) + "\n" for row in best.values())


def compare(options: argparse.Namespace) -> None:
    found = list(rows(options.folder / "best.jsonl"))
    until = time.time() + options.seconds
    if options.device != "emulated":
        with ProcessPoolExecutor(options.workers, mp_context=context) as pool:
            list(pool.map(warm, [row["task"] for row in found]))
    baselines = ("eager",) if options.device == "emulated" else ("compile", "eager")
    kept = options.folder / "compared.jsonl"
    for baseline in baselines:
        done = {row["task"] for row in rows(kept) if row["baseline"] == baseline}
        jobs = [
            (load_task(row["task"]), Candidate(source=row["source"]))
            for row in found
            if row["task"] not in done
        ]
        with open_judge(options.device, baseline=baseline) as judge, kept.open("a") as file:
            for evaluation in judge.evaluate_many(jobs):
                row = compared(evaluation, baseline)
                print(f"{row['task']:48} {baseline:8} {row['outcome']:12} {row['speedup'] or ''}", flush=True)
                file.write(json.dumps(row) + "\n")
                file.flush()
                if time.time() > until:
                    return
    text = report(options.folder)
    print(text)
    if options.out:
        options.out.write_text(text)


def warm(name: str) -> None:
    """Has torch.compile keep what it makes, so that the one who measures finds it."""
    from kernelblaster.judge.baseline import ModuleBaseline

    class _Device:
        torch_device = "cuda"

    try:
        import torch

        task = load_task(name)
        baseline = ModuleBaseline(task, _Device(), "compile")  # type: ignore[arg-type]
        shapes = [(t, task.primary.shape(t)) for t in task.signature.input_tensors]
        inputs = [torch.ones(shape, device="cuda").to(getattr(torch, t.dtype)) for t, shape in shapes]
        baseline._fast(inputs)
    except Exception as error:
        print(f"{name}: not warmed: {str(error)[:100]}", flush=True)


def compared(evaluation: Evaluation, baseline: str) -> dict[str, Any]:
    timing, outcome = evaluation.timing, evaluation.outcome
    row: dict[str, Any] = {"task": evaluation.task, "baseline": baseline, "outcome": outcome.kind}
    row["speedup"] = None
    if timing is not None and isinstance(outcome, CORRECT):
        s = outcome.speedup
        row |= {"speedup": s.estimate, "low": s.low, "high": s.high}
        row |= {"us": timing.candidate_us, "baseline_us": timing.baseline_us, "floor_us": timing.floor_us}
    return row


def report(folder: Path) -> str:
    found = list(rows(folder / "best.jsonl"))
    measured: dict[str, dict[str, dict[str, Any]]] = {}
    for row in rows(folder / "compared.jsonl"):
        measured.setdefault(row["task"], {})[row["baseline"]] = row
    lines = [
        "| task | us | eager us | compile us | against the better | floor us | x floor | judged | applied |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    gains: dict[str, list[float]] = {}
    invalid = []
    for row in sorted(found, key=lambda r: r["task"]):
        by = measured.get(row["task"], {})
        level = row["task"].split("/")[1]
        good = [b for b in by.values() if b["speedup"] is not None]
        if not good or len(good) < len(by):
            invalid.append(row["task"])
            gains.setdefault(level, []).append(0.0)
            lines.append(f"| {row['task']} | not valid when judged afresh | | | | | | | |")
            continue
        least = min(good, key=lambda b: b["speedup"])
        gains.setdefault(level, []).append(log(least["speedup"]))
        times = [f"{by[b]['baseline_us']:.0f}" if b in by else "" for b in ("eager", "compile")]
        lines.append(
            f"| {row['task']} | {least['us']:.0f} | {times[0]} | {times[1]} | {least['speedup']:.2f} "
            f"({least['low']:.2f} to {least['high']:.2f}) | {least['floor_us']:.0f} "
            f"| {least['us'] / least['floor_us']:.2f} | {row['evaluations']} | {', '.join(row['applied'])} |"
        )
    head = [f"{len(found)} tasks covered, {len(found) - len(invalid)} valid.", ""]
    head += [
        f"- {level}: geometric mean {exp(sum(found) / len(found)):.2f}x over {len(found)} tasks"
        for level, found in sorted(gains.items())
    ]
    return "\n".join([*head, "", *lines, ""])


def rows(path: Path) -> Iterator[dict[str, Any]]:
    if path.is_file():
        for line in path.read_text().splitlines():
            yield json.loads(line)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("verb", choices=("paths", "compare"))
    parser.add_argument("tasks", nargs="*")
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--workers", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=1e9, help="start nothing new after so long")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    {"paths": follow_paths, "compare": compare}[options.verb](options)


if __name__ == "__main__":
    main()
