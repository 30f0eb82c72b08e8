"""What confinement costs: starting a command, and a verdict, confined and not, in turns.

python benchmarks/confinement.py [--rounds 10] [--no-verdicts] [--before CHECKOUT] [--out FILE]

Times are of processors (this process and its children), since others use the machine too; a ratio is the
median of those of the rounds. With --before, the commands of an earlier checkout, not confined, take
turns with these."""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
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


COMMANDS = {
    "`tasks show`": ["tasks", "show", TASK, "--header"],
    "`tasks check`": ["tasks", "check", TASK],
    "`evaluate` of a candidate that its text rules out": [
        "evaluate",
        TASK,
        "RULED_OUT",
        "--device",
        "emulated",
    ],
}
"""What is nearly all set-up: a command's start, confinement, PyTorch, a task."""
VERDICT = "a verdict, for each verified call"


def spent(command: list[str], root: Path = ROOT) -> tuple[float, str]:
    """(seconds of processors, output) of a command of the checkout `root`."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {**os.environ, "PYTHONPATH": str(root / "src")}
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=root, env=environment, timeout=600
    )
    if "Traceback" in done.stderr or done.returncode not in (0, 6):  # 6: rejected, as it should be
        raise SystemExit(f"{' '.join(command)} failed: {done.stderr[-2000:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout


def one_round(number: int, ruled_out: Path, given: argparse.Namespace) -> dict[str, dict[str, float]]:
    """Milliseconds of processors by thing and by way ("confined", "trusted", "before"); which comes first
    alternates."""
    found: dict[str, dict[str, float]] = {name: {} for name in COMMANDS}
    ways = ["confined", "trusted", *(["before"] if given.before else [])]
    for way in ways if number % 2 else reversed(ways):
        option = [] if way == "confined" else ["--trust-tasks"]
        root = given.before.absolute() if way == "before" else ROOT
        for name, command in COMMANDS.items():
            words = [str(ruled_out) if word == "RULED_OUT" else word for word in command]
            found[name][way] = 1e3 * spent([sys.executable, "-m", "kernelblaster", *option, *words], root)[0]
        if given.verdicts and way != "before":
            judging = [sys.executable, "-c", JUDGING, way, TASK, str(CANDIDATE), str(VERDICTS)]
            found.setdefault(VERDICT, {})[way] = json.loads(spent(judging)[1])["call_ms"]
    return found


def table(rounds: list[dict[str, dict[str, float]]], *, before: bool) -> list[str]:
    titles = ["", "not confined", "confined", "confined / not", "least and most"]
    titles += ["before, not confined", "confined / before"] if before else []
    lines = [f"| {' | '.join(titles)} |", f"|{'---|' * len(titles)}"]
    for what in rounds[0]:
        times = {way: [one[what][way] for one in rounds] for way in rounds[0][what]}
        middle = {way: f"{statistics.median(values):.4g}" for way, values in times.items()}
        ratios = sorted(a / b for a, b in zip(times["confined"], times["trusted"], strict=True))
        cells = [what, middle["trusted"], middle["confined"], f"{statistics.median(ratios):.3f}"]
        cells.append(f"{ratios[0]:.3f} to {ratios[-1]:.3f}")
        if before:
            earlier = [a / b for a, b in zip(times["confined"], times.get("before", []), strict=False)]
            cells += [middle["before"], f"{statistics.median(earlier):.3f}"] if earlier else ["", ""]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--no-verdicts", dest="verdicts", action="store_false", help="set-up alone")
    parser.add_argument("--before", type=Path, help="a checkout whose commands are measured beside these")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with tempfile.TemporaryDirectory() as made:
        ruled_out = Path(made) / "ruled_out.cu"
        ruled_out.write_text('#include <thread>\nextern "C" void launch_gpu_implementation();\n')
        rounds = [one_round(number, ruled_out, given) for number in range(given.rounds)]
    lines = ["Processor time in ms.", "", *table(rounds, before=given.before is not None)]
    alone = [json.loads(spent([sys.executable, "-c", CONFINING])[1]) for _ in range(given.rounds)]
    confine_ms = statistics.median(one["confine_ms"] for one in alone)
    lines += ["", f"Confining itself takes {confine_ms:.1f} ms (median of {given.rounds})."]
    publish(lines, given.out)


if __name__ == "__main__":
    main()
