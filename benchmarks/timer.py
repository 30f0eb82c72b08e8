"""How far the timer can be trusted: a kernel against a copy of itself, and against one that does
5 % less work.

    python benchmarks/timer.py [--trials 100] [--seconds S] [--out results/timer.md]

The comparisons take turns, and the table is written after each turn.
"""

import argparse
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from publish import keep, publish

from kernelblaster.api import DeviceJudge, open_device
from kernelblaster.records import Candidate, Outcome, Task
from kernelblaster.testing.corpus import Corpus


@dataclass
class Comparison:
    """A CUDA task's own kernel against itself with other constants, `trials` times; what came of it so
    far."""

    title: str
    task: Task
    defines: dict[str, int]
    trials: int
    outcomes: list[Outcome] = field(default_factory=list)

    @property
    def row(self) -> str:
        kinds = Counter(outcome.kind for outcome in self.outcomes)
        odd = [o for o in self.outcomes if not hasattr(o, "speedup")]
        speedups = sorted(o.speedup.estimate for o in self.outcomes if hasattr(o, "speedup"))
        seen = f"{speedups[0]:.4f} to {speedups[-1]:.4f}" if speedups else "none yet"
        if odd:
            seen += f"; {len(odd)} times {odd[0].kind} {getattr(odd[0], 'reason', '')}"
        counts = " | ".join(str(kinds[k]) for k in ("Inconclusive", "Accepted", "Slower"))
        return f"| {self.title} | {len(self.outcomes)} | {counts} | {seen} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=600.0, help="begin nothing new after that")
    parser.add_argument(
        "--device", default="cuda", choices=("cuda", "emulated"), help="emulated: to try this"
    )
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    until = time.perf_counter() + arguments.seconds
    corpus = Corpus()
    device = open_device(arguments.device)
    judge = DeviceJudge(device)
    busy = corpus.task("benchmarks/busy.cu")
    gather = corpus.task("tests/exploits/tasks/weighted_gather.cu")
    half = arguments.trials // 2
    comparisons = [
        Comparison("a compute-bound kernel against itself", busy, {}, half),
        Comparison("a memory-bound kernel against itself", gather, {}, arguments.trials - half),
        Comparison("5 % fewer steps", busy, {"STEPS": 950}, min(10, half)),
        Comparison("2 % fewer steps", busy, {"STEPS": 980}, min(10, half)),
    ]
    lines: list[str] = []
    for trial in range(arguments.trials - half):
        for one in comparisons:
            if trial < one.trials and time.perf_counter() < until:
                source = Candidate(source=one.task.source).with_defines(one.defines)
                one.outcomes.append(judge.evaluate(one.task, source).outcome)
        lines = [
            f"# The timer on {device.name}",
            "",
            "| comparison | trials | Inconclusive | Accepted | Slower | speedups seen |",
            "|---|---|---|---|---|---|",
            *(one.row for one in comparisons),
        ]
        keep(lines, arguments.out)
        if time.perf_counter() > until:
            break
    judge.close()
    device.close()
    publish(lines, arguments.out)


if __name__ == "__main__":
    main()
