"""Whether honest host code can be followed: what the host check says of kernels that do not cheat.

    python benchmarks/host_code.py [--only TEXT,TEXT] [--out results/host-code.md]

The honest kernels of the corpus and the variants are compiled, and the host code of their first, second and
fourth call at the timed sizes is executed instruction by instruction, as before a candidate is accepted.
Needs no GPU; kernels are not run. Compilers make different host code: run this with each that is of interest
(the `g++` on the PATH).
"""

import argparse
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

from publish import keep

from kernelblaster.devices.device import CandidateDied, CandidateHung
from kernelblaster.devices.emulated import EmulatedDevice
from kernelblaster.errors import KernelBlasterError
from kernelblaster.judge.compile import Binary, compile_candidate, compilers
from kernelblaster.judge.host_check import FOLLOWED, check_host_code
from kernelblaster.judge.order_sizes import primary_call
from kernelblaster.records import Outcome, Task
from kernelblaster.tasks.reference import open_reference
from kernelblaster.testing.corpus import ROOT, Corpus

FOLDERS = ("tests/exploits/honest", "benchmarks/variants")
WRITTEN_EVERY = 10


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    files = [file for folder in FOLDERS for file in sorted((ROOT / folder).glob("*.cu"))]
    files = [file for file in files if any(part in file.name for part in arguments.only.split(","))]
    files = [file for file in files if "\n// dtype: " not in file.read_text()]  # for models of time only
    start, corpus = time.perf_counter(), Corpus()
    said: dict[str, str] = {}
    with closing(EmulatedDevice()) as device, compilers() as pool:
        read = {file: corpus.read(file) for file in files}
        compiled = {
            file: pool.submit(compile_candidate, task, candidate, device.spec.architecture)
            for file, (task, candidate) in read.items()
        }
        for file, (task, _) in read.items():
            said[file.stem] = followed(device, task, compiled[file].result())
            print(f"{file.stem}: {said[file.stem]}", flush=True)
            if len(said) % WRITTEN_EVERY == 0 or len(said) == len(files):
                keep(report(said, len(files), time.perf_counter() - start), arguments.out)
    print(dict(Counter(said.values())))
    return any(words != FOLLOWED for words in said.values())


def followed(device: EmulatedDevice, task: Task, binary: Binary | Outcome) -> str:
    """What the host check says of one kernel, in a line."""
    if not isinstance(binary, Binary):
        return f"not compiled: {binary.kind}"
    try:
        module = open_reference(task, task.smallest, device.torch_device) if task.kind == "module" else None
        device.arena()
        with closing(device.start(binary.path)) as runner:
            outcome = check_host_code(runner, primary_call(task, module.scalars if module else []))
    except (KernelBlasterError, CandidateDied, CandidateHung) as error:
        return f"failed: {error}"[:200]
    return (
        outcome if isinstance(outcome, str) else f"{outcome.kind}: {getattr(outcome, 'evidence', '')}"[:200]
    )


def report(said: dict[str, str], asked: int, seconds: float) -> list[str]:
    compiler = subprocess.run(["g++", "--version"], capture_output=True, text=True).stdout.partition("\n")[0]
    right = sum(words == FOLLOWED for words in said.values())
    lines = [
        "# Honest host code, followed",
        "",
        f"{compiler}; {len(said)} of {asked} kernels in {seconds:.0f} s.",
        f"Followed to the end without a finding: **{right} of {len(said)}**.",
    ]
    others = [f"| {name} | {words.replace('|', '/')} |" for name, words in said.items() if words != FOLLOWED]
    return [*lines, "", "| kernel | what the check says |", "|---|---|", *others] if others else lines


if __name__ == "__main__":
    sys.exit(main())
