"""Whether a candidate runs as fast on memory shared with the judge as on memory of its own: the
hand-written candidates, each timed in turns on the shared arena and on a private copy of it.

    python benchmarks/placement.py [--out results/placement.md]
"""

import argparse
import statistics
from pathlib import Path

from publish import publish

from kernelblaster.api import Judge, open_device
from kernelblaster.devices.cuda import CudaDevice
from kernelblaster.judge.compile import Binary
from kernelblaster.judge.profile import filled_layout
from kernelblaster.records import Candidate, Task
from kernelblaster.testing.corpus import ROOT, Corpus

ROUNDS = 20


def medians(device: CudaDevice, judge: Judge, task: Task, candidate: Candidate) -> tuple[float, float]:
    """Microseconds on shared and on private memory."""
    prepared = judge._prepare(task)
    binary = judge._compile(task, candidate)
    assert isinstance(binary, Binary), binary
    device.arena(prepared.arena_bytes)
    layout = filled_layout(device, task, prepared.baseline, task.primary)
    call = layout.arguments(task.signature, prepared.baseline.scalars)
    shared, private = device.start(binary.path), device.start(binary.path)
    private.prepare("copy")
    device.settle()
    times = [(shared.time(call).event_us, private.time(call).event_us) for _ in range(ROUNDS)]
    for runner in (shared, private):
        runner.close()
    return statistics.median(t[0] for t in times), statistics.median(t[1] for t in times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    device = open_device("cuda")
    judge = Judge(device)
    corpus = Corpus()
    lines = [
        f"# Shared against private memory on {device.name}",
        "",
        f"Medians of {ROUNDS} samples of each, in turns.",
        "",
        "| candidate | shared us | private us | ratio |",
        "|---|---|---|---|",
    ]
    ratios = []
    for file in sorted((ROOT / "tests" / "candidates").glob("*.cu")):
        shared, private = medians(device, judge, *corpus.read(file))
        ratios.append(shared / private)
        lines.append(f"| {file.stem} | {shared:.1f} | {private:.1f} | {shared / private:.3f} |")
    lines.append(f"\nMedian ratio {statistics.median(ratios):.3f}, largest {max(ratios):.3f}.")
    judge.close()
    device.close()
    publish(lines, arguments.out)


if __name__ == "__main__":
    main()
