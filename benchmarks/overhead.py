"""What confinement, checksums and limits cost: this checkout beside an earlier one.

python benchmarks/overhead.py --before CHECKOUT [--rounds 10] [--out FILE]

Both take turns, a fresh process each time; each reports the fastest of several times that it did a thing.
Parts that later versions of the judge changed for other reasons (more sizes, more draws, the order check)
show in the verdict as a whole; the parts are what processes, sandbox, cache and files cost by themselves.
"""

import argparse
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from publish import publish

ROOT = Path(__file__).parents[1]
LIMIT_S = 600
VERDICTS = 4
TITLES = {
    "import": "import the package and PyTorch",
    "first": "open a judge on the emulated device, the first of a process; processor time",
    "open": "open another judge; processor time",
    "player": "start a player (worker) with a candidate",
    "sandbox": "start a recorder, confinement tried; processor time",
    "record": "record one call: fork, confine, load, answer; processor time",
    "cached": "find a compiled candidate in the cache, screened",
    "event": "append an event, on the disk",
    "knowledge": "one observation in a knowledge base, on the disk",
    "calls": "calls of the candidate that a verdict verifies (a count)",
    "wall": "one verdict, everything warm, the fastest of four",
    "verdict": "one verdict, processor time of all its processes",
    "verdict a call": "the same, divided by its verified calls",
}
UNITS = {"calls": 1.0}  # all others are seconds, shown in milliseconds


def fastest(action: Callable[[], object], times: int) -> float:
    """Of so many: what others do on the machine only adds to it."""
    taken = []
    for _ in range(times):
        start = time.perf_counter()
        action()
        taken.append(time.perf_counter() - start)
    return min(taken)


def processor(action: Callable[[], object], times: int) -> float:
    """Seconds of a processor, those of all processes that it starts and ends included: what else a machine
    does hardly shows in them."""
    before = _spent()
    for _ in range(times):
        action()
    return (_spent() - before) / times


def _spent() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def measured(folder: Path) -> dict[str, float]:
    """In this process, with whatever version of the package it finds."""
    start = time.perf_counter()
    from kernelblaster.api import load_task, open_judge
    from kernelblaster.devices import recorder as recording
    from kernelblaster.devices import window
    from kernelblaster.devices.device import GpuFacts
    from kernelblaster.devices.device_code import device_code
    from kernelblaster.devices.recorder import Recordable, Recorder
    from kernelblaster.devices.toolchain import toolchain
    from kernelblaster.judge.compile import Binary, compile_candidate
    from kernelblaster.knowledge import KnowledgeBase, Provenance, plant
    from kernelblaster.records import Candidate
    from kernelblaster.store.run import create_run

    found = {"import": time.perf_counter() - start}
    task = load_task("core/level1/softmax")
    candidate = Candidate(source=(ROOT / "examples" / "softmax.cu").read_text())

    def opened() -> None:
        toolchain.cache_clear()
        with open_judge("emulated"):
            pass

    found["first"] = processor(opened, 1)
    found["open"] = processor(opened, 60)
    with open_judge("emulated") as judge:
        judge.evaluate(task, candidate)
        verdicts: list[Any] = []
        found["wall"] = fastest(lambda: verdicts.append(judge.evaluate(task, candidate)), VERDICTS)
        found["calls"] = statistics.mean(one.verification.calls for one in verdicts)
        architecture = judge.device.spec.architecture

        def compiled() -> Binary:
            binary = compile_candidate(task, candidate, architecture)
            assert isinstance(binary, Binary)
            return binary

        found["cached"] = fastest(compiled, 30)
        binary = compiled().path
        judge.device.arena([4096, 4096], 0)
        found["player"] = fastest(lambda: judge.device.start(binary).close(), 30)

    def judged() -> None:
        with open_judge("emulated") as judge:
            for _ in range(VERDICTS):
                verdicts.append(judge.evaluate(task, candidate))

    verdicts.clear()
    found["verdict"] = processor(judged, 1) / VERDICTS
    found["verdict a call"] = VERDICTS * found["verdict"] / sum(one.verification.calls for one in verdicts)

    def confined() -> None:
        recorder = Recorder()
        assert recorder.gaps() == ""
        recorder.close()

    found["sandbox"] = processor(confined, 60)
    code = device_code(binary.parent)
    recordable = Recordable(binary.parent, code, GpuFacts("a GPU", 1 << 36, {16: 132}), {})
    made = getattr(recording, "CallToRecord", None) or recording.Call  # its name in versions before
    call = made((window.BEGIN, window.BEGIN, 4, 8), window.SCRATCH, False, 4096)

    def recorded() -> None:
        recorder = Recorder()
        for _ in range(100):
            recorder.record(recordable, [call], 5.0)
        recorder.close()

    found["record"] = processor(recorded, 1) / 100
    with create_run(folder / "runs", task="t") as run:
        numbers = iter(range(1000))
        found["event"] = fastest(
            lambda: run.once("evaluation", str(next(numbers)), lambda: {"us": 1.5, "text": "kernel " * 20}),
            100,
        )
    with KnowledgeBase(folder / "kb.db") as kb:
        plant(kb)
        state, entries = next(iter(kb.content().entries.items()))
        about = Provenance(run="r", architecture="sm_90a")
        found["knowledge"] = fastest(lambda: kb.observe(state, next(iter(entries)), 0.1, about), 50)
    return found


def once(checkout: Path) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as made:
        environment = {**os.environ, "PYTHONPATH": str(checkout / "src"), "OMP_NUM_THREADS": "1"}
        command = [sys.executable, __file__, "--measure", made]
        done = subprocess.run(
            command, env=environment, stdout=subprocess.PIPE, text=True, check=True, timeout=LIMIT_S
        )
    read: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return read


def interval(quotients: list[float], seed: int = 0) -> tuple[float, float]:
    """In which 95 % of the medians of resampled rounds lie."""
    rng = random.Random(seed)
    drawn = sorted(statistics.median(rng.choices(quotients, k=len(quotients))) for _ in range(2000))
    return drawn[50], drawn[1949]


def table(rounds: list[tuple[dict[str, float], dict[str, float]]]) -> list[str]:
    lines = ["| | before, ms | now, ms | now / before | 95 % |", "|---|---|---|---|---|"]
    for name, title in TITLES.items():
        before, now = ([one[i][name] * UNITS.get(name, 1e3) for one in rounds] for i in (0, 1))
        quotients = [b / a for a, b in zip(before, now, strict=True)]
        low, high = interval(quotients)
        medians = f"{statistics.median(before):.4g} | {statistics.median(now):.4g}"
        lines.append(
            f"| {title} | {medians} | {statistics.median(quotients):.3f} | {low:.3f} to {high:.3f} |"
        )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--before", type=Path)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    if given.measure:
        print(json.dumps(measured(given.measure)))
        return
    if given.before is None:
        parser.error("--before names the checkout to compare with")
    for checkout in (given.before, ROOT):
        once(checkout)  # what is built and compiled once for a machine
    rounds = []
    for number in range(given.rounds):
        pair = [once(checkout) for checkout in ((given.before, ROOT) if number % 2 else (ROOT, given.before))]
        rounds.append((pair[0], pair[1]) if number % 2 else (pair[1], pair[0]))
        print(
            number,
            *(f"{name} {rounds[-1][1][name] / rounds[-1][0][name]:.2f}" for name in TITLES),
            flush=True,
        )
    publish(table(rounds), given.out)


if __name__ == "__main__":
    main()
