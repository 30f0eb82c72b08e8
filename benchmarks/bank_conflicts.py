"""Wavefronts and bank conflicts of shared loads: Nsight Compute's beside the PTX machine's, by pattern.

    python benchmarks/bank_conflicts.py                                    the PTX machine alone
    python benchmarks/bank_conflicts.py --device cuda --out results/bank-conflicts.md     needs a GPU and NCU

Patterns are one kernel (bank_conflicts.cu) with its constants; with --variants, also the hand-written kernels
of benchmarks/variants that use shared memory. The rules that the PTX machine counts by are those of the CUDA
programming guide: 32 banks of 4 bytes; a half warp at a time where lanes load 8 bytes, a quarter warp where
they load 16; lanes that want the same address of a bank are served together.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

from publish import publish
from variants import kernel_files, read_variants

from kernelblaster.api import load_task, open_judge
from kernelblaster.judge.judge import DeviceJudge
from kernelblaster.records import Candidate, Profile, Task

HERE = Path(__file__).parent
WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum"
CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum"
PATTERNS = {  # words a lane, lanes that differ, stride in words
    "words in a row": (1, 31, 1),
    "one word for all": (1, 0, 1),
    "every second word": (1, 31, 2),
    "every 32nd word": (1, 31, 32),
    "two words of one bank": (1, 1, 32),
    "float2 in a row": (2, 31, 2),
    "one float2 for all": (2, 0, 2),
    "every second float2": (2, 31, 4),
    "float4 in a row": (4, 31, 4),
    "one float4 for all": (4, 0, 4),
    "two float4 in a row for all": (4, 1, 4),
    "four float4 in a row for all": (4, 3, 4),
    "two float4 of the same banks": (4, 1, 32),
    "every second float4": (4, 31, 8),
    "a float4 of each row of 32 words": (4, 31, 32),
}
Counted = tuple[float, float] | None
"""Wavefronts and conflicts of a call; None where it has no profile."""


def counted(profile: object) -> Counted:
    """What a profile counted, over all kernels of the call."""
    if not isinstance(profile, Profile):
        return None
    totals = []
    for name in (WAVEFRONTS, CONFLICTS):
        found = [kernel.metric(name) for kernel in profile.kernels]
        totals.append(sum(m.value for m in found if m is not None and isinstance(m.value, float)))
    return totals[0], totals[1]


def cases(with_variants: bool) -> Iterator[tuple[str, Task, Candidate]]:
    """Every pattern, and the variants with shared memory."""
    task = load_task(HERE / "bank_conflicts.cu")
    for name, (width, differ, stride) in PATTERNS.items():
        defines = {"WIDTH": width, "DIFFER": differ, "STRIDE": stride}
        yield name, task, Candidate(source=task.source).with_defines(defines)
    for file in kernel_files() if with_variants else ():
        if "__shared__" in file.read_text():
            yield from ((kernel.title, kernel.task, kernel.candidate) for kernel in read_variants(file))


def measure(judge: DeviceJudge, with_variants: bool) -> dict[str, Counted]:
    """What the judge's device counts for each case."""
    counts = {}
    for name, task, candidate in cases(with_variants):
        counts[name] = counted(judge.profile(task, [candidate])[0])
        print(f"{judge.device.name}: {name}: {counts[name]}", flush=True)
    return counts


def row(name: str, machine: Counted, gpu: Counted) -> str:
    shown = [f"{value:.0f}" for pair in (machine, gpu) for value in (pair or ())] if machine else ["-", "-"]
    return f"| {name} | {' | '.join(shown)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=["emulated", "cuda"], default="emulated")
    parser.add_argument("--gpu", default="h200", help="what the PTX machine stands for")
    parser.add_argument("--variants", action="store_true", help="the variants with shared memory too")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    with open_judge("emulated", options.gpu) as judge:
        machine = measure(judge, options.variants)
    gpu: dict[str, Counted] = {}
    titles = "| pattern | wavefronts | conflicts |"
    if options.device == "cuda":
        with open_judge("cuda") as judge:
            gpu = measure(judge, options.variants)
        titles += " wavefronts (NCU) | conflicts (NCU) |"
    rule = "|" + "---|" * (titles.count("|") - 1)
    rows = [row(name, count, gpu.get(name)) for name, count in machine.items()]
    publish(["# Bank conflicts, the PTX machine beside Nsight Compute", "", titles, rule, *rows], options.out)


if __name__ == "__main__":
    main()
