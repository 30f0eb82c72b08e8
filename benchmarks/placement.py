"""Whether a candidate runs as fast on memory shared with the judge as on memory of its own: the same
kernel, timed in turns on the shared arena and on a private copy of it.

    python benchmarks/placement.py [TASK CANDIDATE.cu] [--out results/placement.md]
"""

import argparse
import statistics
from pathlib import Path

from kernelblaster.api import Judge, load_task, open_device
from kernelblaster.judge.compile import Binary
from kernelblaster.judge.profile import filled_layout
from kernelblaster.records import Candidate
from kernelblaster.testing.corpus import ROOT

ROUNDS = 40


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("task", nargs="?", default="core/level1/softmax")
    parser.add_argument("candidate", nargs="?", type=Path, default=ROOT / "examples" / "softmax.cu")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    task = load_task(arguments.task)
    device = open_device()
    judge = Judge(device)
    prepared = judge._prepare(task)
    binary = judge._compile(task, Candidate(source=arguments.candidate.read_text()))
    assert isinstance(binary, Binary), binary
    device.arena(prepared.arena_bytes)
    layout = filled_layout(device, task, prepared.baseline, task.primary)
    call = layout.arguments(task.signature, prepared.baseline.scalars)
    shared, private = device.start(binary.path), device.start(binary.path)
    private.prepare("copy")
    device.settle()
    times: dict[str, list[float]] = {"shared": [], "private": []}
    for _ in range(ROUNDS):
        times["shared"].append(shared.time(call).event_us)
        times["private"].append(private.time(call).event_us)
    middle = {name: statistics.median(values) for name, values in times.items()}
    lines = [
        f"# Shared against private memory on {device.name}",
        "",
        f"{arguments.candidate.name} for {task.name}, {ROUNDS} samples of each in turns.",
        "",
        "| memory | median us | least us |",
        "|---|---|---|",
    ]
    lines += [f"| {name} | {middle[name]:.1f} | {min(times[name]):.1f} |" for name in times]
    lines.append(f"\nratio of medians: {middle['shared'] / middle['private']:.3f}")
    for runner in (shared, private):
        runner.close()
    judge.close()
    device.close()
    text = "\n".join(lines) + "\n"
    if arguments.out:
        arguments.out.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
