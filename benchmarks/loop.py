"""The loop's own time: everything but compiling and running kernels.

python benchmarks/loop.py [--out results/loop.md]

Real tasks, the expert policy, a knowledge base file with the seed in it, and a run on disk; only the judge
answers at once, with times and profiles that it makes up from the candidate's text.
"""

import argparse
import os
import platform
import re
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

from publish import publish

from kernelblaster.api import load_task
from kernelblaster.devices.specs import gpu_specs
from kernelblaster.judge.timing import conclude
from kernelblaster.knowledge import KnowledgeBase, plant
from kernelblaster.optimize import optimize
from kernelblaster.policies.expert.policy import ExpertPolicy
from kernelblaster.policies.policy import Attempt
from kernelblaster.records import Candidate, Evaluation, Floor, KernelProfile, Metric, Profile, Task, Timing
from kernelblaster.records.outcome import Speedup
from kernelblaster.sessions.log import Progress
from kernelblaster.sessions.settings import Search
from kernelblaster.store.run import create_run

TASKS = ("core/level1/softmax", "core/level2/scale_mask_softmax", "core/level2/linear_gelu_scale")
EVALUATIONS = 60
DEFINED = re.compile(r"__global__\s+void\s+(?:__launch_bounds__\([^)]*\)\s*)?(\w+)\(")
SHARES = ("DRAM Throughput", "L2 Cache Throughput", "L1/TEX Cache Throughput", "Issue Slots Busy")
BYTES = 1 << 28


class Made(ExpertPolicy):
    """The expert policy, with the first candidate made beforehand: capturing a graph is done once."""

    def __init__(self, first: Attempt) -> None:
        super().__init__()
        self._first = first

    def initial(self, task: Task) -> Attempt:
        return self._first


class AtOnce:
    """A judge that makes up its verdicts; the same text always has the same one."""

    device: Any = SimpleNamespace(spec=gpu_specs()["h200"], modelled=True)

    def prepare(self, task: Task) -> tuple[None, Floor]:
        return None, Floor(bytes=BYTES, certain_bytes=BYTES, operations=0)

    def confirmed(self, task: Task, candidate: Candidate, evaluation: Evaluation) -> Evaluation:
        return evaluation

    def evaluate_many(self, jobs: Sequence[tuple[Task, Candidate]]) -> Iterator[Evaluation]:
        for task, candidate in jobs:
            random = Random(candidate.source)
            kernels = tuple(_kernel(name, random) for name in DEFINED.findall(candidate.source))
            took = sum(kernel.duration_us or 0.0 for kernel in kernels)
            speedup = Speedup(estimate=500 / took, low=490 / took, high=510 / took, confidence=0.99)
            yield Evaluation(
                task=task.name,
                candidate=candidate.digest,
                device=self.device.spec.title,
                outcome=conclude(speedup),
                timing=Timing(
                    baseline="eager", baseline_us=500, candidate_us=took, speedup=speedup, samples=100,
                    candidate_wall_us=None, candidate_activity_us=None, floor_us=1, seconds=0,
                ),
                profile=Profile(
                    device=self.device.spec.title, tier="modelled", workload="primary", kernels=kernels
                ),
                seconds=0,
            )  # fmt: skip


def _kernel(name: str, random: Random) -> KernelProfile:
    """As many metrics as a profile has, a few of them with a meaning."""
    metrics = [Metric(name="Duration", unit="us", value=random.uniform(20, 200), tier="modelled")]
    metrics += [Metric(name=n, unit="%", value=random.uniform(5, 95), tier="modelled") for n in SHARES]
    metrics += [Metric(name=f"other {n}", unit="", value=random.random(), tier="modelled") for n in range(60)]
    return KernelProfile(name=name, grid=(4096, 1, 1), block=(256, 1, 1), metrics=tuple(metrics))


def measured(name: str, folder: Path) -> str:
    """One row: the time of a whole search, less the judge's, for each step that it made."""
    task = load_task(name)
    policy = Made(ExpertPolicy().initial(task))
    seen: list[float] = []

    def tell(progress: Progress) -> None:
        if progress.phase == "stepped":
            seen.append(time.perf_counter())

    judge = _Stopwatch(AtOnce())
    with KnowledgeBase(folder / "kb.db") as knowledge, create_run(folder / "runs") as run:
        plant(knowledge)
        start, computing = time.perf_counter(), time.process_time()
        found = optimize(task, judge, knowledge, run, Search(evaluations=EVALUATIONS), policy, tell)  # type: ignore[arg-type]
        own = time.perf_counter() - start - judge.seconds
        computed = time.process_time() - computing - judge.seconds
    gaps = [1e3 * (b - a) for a, b in zip([start, *seen], seen, strict=False) if b - a > 1e-4]
    mean, cpu = (1e3 * seconds / len(found.steps) for seconds in (own, computed))
    times = f"{mean:.1f} | {cpu:.1f} | {statistics.median(gaps):.1f} | {max(gaps):.1f}"
    return f"| {name} | {len(found.steps)} | {times} |"


class _Stopwatch:
    """Passes everything on, and adds up the time that the judge takes."""

    def __init__(self, judge: AtOnce) -> None:
        self._judge = judge
        self.device, self.prepare, self.confirmed = judge.device, judge.prepare, judge.confirmed
        self.seconds = 0.0

    def evaluate_many(self, jobs: Sequence[tuple[Task, Candidate]]) -> list[Evaluation]:
        start = time.perf_counter()
        found = list(self._judge.evaluate_many(jobs))
        self.seconds += time.perf_counter() - start
        return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = [measured(name, Path(folder)) for name in TASKS]
    lines = [
        "# The loop's own time",
        "",
        f"Searches of {EVALUATIONS} candidates on {platform.machine()}, SQLite and the run's files on disk, "
        "without compiling and running kernels. A step is one candidate; those of a batch end together. "
        f"The machine has {os.cpu_count()} cores; its load was {os.getloadavg()[0]:.1f}.",
        "",
        "| task | steps | mean ms a step | of it computing | median ms a batch | longest ms a batch |",
        "|---|---|---|---|---|---|",
        *rows,
    ]
    publish(lines, arguments.out)


if __name__ == "__main__":
    main()
