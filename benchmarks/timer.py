"""How far the timer can be trusted: a kernel against a copy of itself, and against one that does
5 % less work.

    python benchmarks/timer.py [--trials 100] [--out results/timer.md]
"""

import argparse
from collections import Counter
from pathlib import Path

from kernelblaster.api import DeviceJudge, open_device
from kernelblaster.records import Candidate
from kernelblaster.testing.corpus import Corpus


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    corpus = Corpus()
    device = open_device("cuda")
    judge = DeviceJudge(device)
    lines = [
        f"# The timer on {device.name}",
        "",
        "| comparison | trials | Inconclusive | Accepted | Slower | speedups seen |",
        "|---|---|---|---|---|---|",
    ]
    busy = corpus.task("benchmarks/busy.cu")
    gather = corpus.task("tests/exploits/tasks/weighted_gather.cu")
    half = arguments.trials // 2
    rows = [
        ("a compute-bound kernel against itself", busy, {}, half),
        ("a memory-bound kernel against itself", gather, {}, arguments.trials - half),
        ("5 % fewer steps", busy, {"STEPS": 950}, 10),
        ("2 % fewer steps", busy, {"STEPS": 980}, 10),
    ]
    for title, task, defines, trials in rows:
        source = Candidate(source=task.source).with_defines(defines)
        outcomes = [judge.evaluate(task, source).outcome for _ in range(trials)]
        kinds = Counter(outcome.kind for outcome in outcomes)
        odd = [o for o in outcomes if not hasattr(o, "speedup")]
        speedups = sorted(o.speedup.estimate for o in outcomes if hasattr(o, "speedup"))
        seen = f"{speedups[0]:.4f} to {speedups[-1]:.4f}" if speedups else str(odd[0])
        counts = " | ".join(str(kinds[k]) for k in ("Inconclusive", "Accepted", "Slower"))
        lines.append(f"| {title} | {trials} | {counts} | {seen} |")
        print(lines[-1], flush=True)
    judge.close()
    device.close()
    if arguments.out:
        arguments.out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
