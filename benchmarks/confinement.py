"""What confinement costs: starting a command, and a verdict, confined and not, in turns.

python benchmarks/confinement.py [--rounds 10] [--out results/confinement.md]

Times are of processors (this process and its children), since others use the machine too; a ratio is the
median of those of the rounds."""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

from publish import publish

ROOT = Path(__file__).parents[1]
CANDIDATE = ROOT / "examples" / "softmax.cu"
TASK = "core/level1/softmax"
VERDICTS = 12
CONFINING = """
import json, sys, time
begin, cpu = time.perf_counter(), time.process_time()
from kernelblaster.confinement.confine import Needs, confine
from pathlib import Path
loaded = time.perf_counter()
confine(Needs(folders=(Path.cwd(),)))
print(json.dumps({"import_ms": 1e3 * (loaded - begin), "confine_ms": 1e3 * (time.perf_counter() - loaded)}))
"""
JUDGING = """
import json, resource, sys, time
import kernelblaster as kb
if sys.argv[1] == "confined":
    kb.confine(readable=[sys.argv[3]])
task, candidate, count = kb.load_task(sys.argv[2]), kb.load_candidate(sys.argv[3]), int(sys.argv[4])


def spent():
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in both)


with kb.open_judge("emulated") as judge:
    judge.evaluate(task, candidate)
    verdicts = []
    for _ in range(count):
        before = spent()
        evaluation = judge.evaluate(task, candidate)
        verdicts.append((spent() - before) / evaluation.verification.calls)
print(json.dumps({"call_ms": 1e3 * min(verdicts)}))
"""


def spent(command: list[str]) -> tuple[float, float, str]:
    """(seconds of processors, seconds, output) of a command."""
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT, timeout=600)
    wall = time.perf_counter() - begin
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return used, wall, done.stdout


def one_round(number: int) -> dict[str, tuple[float, float]]:
    """(confined, not) for each thing that is measured; which comes first alternates."""
    found: dict[str, dict[str, float]] = {}
    for how in sorted(["confined", "trusted"], reverse=bool(number % 2)):
        option = [] if how == "confined" else ["--trust-tasks"]
        command = [sys.executable, "-m", "kernelblaster", *option, "tasks", "show", TASK, "--header"]
        used, wall, _ = spent(command)
        found.setdefault("`tasks show`, processor time, ms", {})[how] = 1e3 * used
        found.setdefault("`tasks show`, ms", {})[how] = 1e3 * wall
        _, _, output = spent([sys.executable, "-c", JUDGING, how, TASK, str(CANDIDATE), str(VERDICTS)])
        found.setdefault("a verdict, processor time for each verified call, ms", {})[how] = json.loads(
            output
        )["call_ms"]
    return {what: (both["confined"], both["trusted"]) for what, both in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    rounds = [one_round(number) for number in range(given.rounds)]
    lines = ["| | not confined | confined | confined / not | least and most |", "|---|---|---|---|---|"]
    for what in rounds[0]:
        confined, other = ([one[what][side] for one in rounds] for side in (0, 1))
        ratios = sorted(a / b for a, b in zip(confined, other, strict=True))
        lines.append(
            f"| {what} | {statistics.median(other):.4g} | {statistics.median(confined):.4g} "
            f"| {statistics.median(ratios):.3f} | {ratios[0]:.3f} to {ratios[-1]:.3f} |"
        )
    alone = [json.loads(spent([sys.executable, "-c", CONFINING])[2]) for _ in range(given.rounds)]
    confine_ms = statistics.median(one["confine_ms"] for one in alone)
    lines += ["", f"Confining itself takes {confine_ms:.1f} ms (median of {given.rounds})."]
    publish(lines, given.out)


if __name__ == "__main__":
    main()
