"""Every task of a suite on a real GPU: loads, is fit, its reference agrees with itself, and how long
PyTorch takes for it.

    python benchmarks/suite.py [--suite core] [--out results/suite.md]
"""

import argparse
import sys
import time
from pathlib import Path

import torch

from kernelblaster.api import open_device
from kernelblaster.judge.baseline import ModuleBaseline
from kernelblaster.judge.layout import slot_bytes
from kernelblaster.judge.precision import compare
from kernelblaster.judge.profile import filled_layout
from kernelblaster.judge.timing import floor_us
from kernelblaster.tasks.catalog import find, load_file
from kernelblaster.tasks.fitness import fitness_of
from kernelblaster.tasks.floor import floor_of


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--suite", default="core")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    device = open_device("cuda")
    rows, bad = [], []
    start = time.perf_counter()
    for name, path in find(arguments.suite):
        try:
            task = load_file(name, path)
            fitness = fitness_of(task, device.torch_device)
            device.arena(slot_bytes(task.signature, [task.primary]))
            baseline = ModuleBaseline(task, device)
            layout = filled_layout(device, task, baseline, task.primary)
            first = baseline.outputs(layout)
            baseline.adopt(layout)
            times, agree = [], True
            for _ in range(7):
                took_us, again = baseline.timed(layout)
                times.append(took_us)
                agree = agree and all(
                    compare(b, a.double()).errors.worst < 1e-2 for a, b in zip(first, again, strict=True)
                )
            del first, again, baseline
            torch.cuda.empty_cache()
            median_us = sorted(times)[len(times) // 2]
            least_us = floor_us(device.spec, task, floor_of(task, fitness))
            rows.append((name, fitness.fit, agree, median_us, least_us, len(task.held_out)))
            if not fitness.fit or not agree:
                bad.append(f"{name}: {fitness.problems} agree={agree}")
        except Exception as error:
            bad.append(f"{name}: {type(error).__name__}: {str(error)[:300]}")
    seconds = time.perf_counter() - start
    inside = sum(100 <= r[3] <= 10_000 for r in rows)
    lines = [
        f"# The suite `{arguments.suite}` on {device.name}",
        "",
        f"{len(rows)} tasks in {seconds:.0f} s: {sum(r[1] for r in rows)} fit, "
        f"{sum(r[2] for r in rows)} whose reference agrees with itself, {inside} between 0.1 and 10 ms "
        f"in eager PyTorch {torch.__version__}, {len(bad)} with a problem.",
        "",
        "| task | fit | agrees | eager us | floor us | held-out workloads |",
        "|---|---|---|---|---|---|",
    ]
    for name, fit, agree, median_us, least_us, held_out in rows:
        yes = ("yes" if fit else "NO", "yes" if agree else "NO")
        lines.append(f"| {name} | {yes[0]} | {yes[1]} | {median_us:.0f} | {least_us:.0f} | {held_out} |")
    if arguments.out:
        arguments.out.write_text("\n".join(lines) + "\n")
    print(lines[2])
    for row in rows:
        if not 100 <= row[3] <= 10_000:
            print(f"outside 0.1 to 10 ms: {row[0]} {row[3]:.0f} us")
    for line in bad:
        print("BAD", line)
    device.close()
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
