"""Whether broken PTX can bring the machine down: the code of real kernels, mangled at random, loaded and
launched on memory that it may not touch. A crash or a hang ends this program, and says with which seed.

    python benchmarks/fuzz.py [--count 20000] [--seed 0] [--out results/fuzz.md]
"""

import argparse
import random
import struct
import time
from collections import Counter
from pathlib import Path

import torch
from variants import FOLDER, kernel_files, read_kernel

from kernelblaster.devices.device_code import PTX
from kernelblaster.errors import KernelBlasterError
from kernelblaster.judge.compile import Binary, compile_candidate
from kernelblaster.ptx.machine import Machine
from kernelblaster.testing.corpus import ROOT
from kernelblaster.testing.mangle import mangled

BUDGET = 20_000
BYTES = 1 << 16


def texts() -> list[str]:
    """The PTX of every hand-written kernel."""
    found = []
    for kernel in map(read_kernel, [*kernel_files(ROOT / "tests" / "candidates"), *kernel_files(FOLDER)]):
        binary = compile_candidate(kernel.task, kernel.candidate, "sm_90a")
        assert isinstance(binary, Binary), binary
        found.append((binary.path.parent / PTX).read_text())
    return found


def attempt(text: str, memory: torch.Tensor, rng: random.Random) -> str:
    """What came of one text, in a word."""
    with Machine() as machine:
        machine.allow(memory.data_ptr(), BYTES, "memory")
        try:
            module = machine.load(text)
        except KernelBlasterError:
            return "refused when loaded"
        found = "ran to the end"
        for kernel in module.kernels:
            values = [rng.choice((memory.data_ptr(), 7, 1 << 40)) for _ in module.parameters(kernel)]
            arguments = [struct.pack("Q", value) for value in values]
            try:
                report = module.launch(kernel, (2, 1, 1), (64, 1, 1), arguments, budget=BUDGET)
            except KernelBlasterError:
                found = "refused when launched"
            else:
                found = "stopped by a finding" if report.stopped else found
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    sources = texts()
    memory = torch.zeros(BYTES, dtype=torch.uint8)
    counted: Counter[str] = Counter()
    start, slowest = time.perf_counter(), 0.0
    for number in range(arguments.count):
        rng = random.Random(arguments.seed + number)
        if number % 1000 == 0:
            print(
                f"{number}, seed {arguments.seed + number}, {time.perf_counter() - start:.0f} s", flush=True
            )
        began = time.perf_counter()
        counted[attempt(mangled(rng.choice(sources), rng), memory, rng)] += 1
        slowest = max(slowest, time.perf_counter() - began)
    lines = [
        "# Mangled PTX",
        "",
        f"{arguments.count} texts made from {len(sources)} kernels, seeds {arguments.seed} to "
        f"{arguments.seed + arguments.count - 1}: no crash, no hang; the slowest took {slowest:.2f} s.",
        "",
        "| what came of it | texts |",
        "|---|---|",
        *(f"| {word} | {count} |" for word, count in counted.most_common()),
    ]
    if arguments.out:
        arguments.out.write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
