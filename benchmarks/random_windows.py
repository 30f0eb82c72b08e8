"""Random convolutions and poolings, judged on the emulated device against PyTorch.

    python benchmarks/random_windows.py [--modules 25] [--windows 20] [--seed 0] [--out FILE]

Each module has so many windows of random kinds, dimensions, channels, strides, paddings, dilations and
groups, each of them an output. They are judged as plain loops in one module; in the next as
implicit matrix products on tensor cores and as patches of neighbouring results in registers,
wherever these apply; and in the third, with these, on scaled halves, where a GPU's PyTorch rounds
to TF32, transposed convolutions with all phases in a block. The judge draws several sizes for each module."""

import argparse
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import get_args

from kernelblaster.api import load_task, open_device
from kernelblaster.errors import BadTask
from kernelblaster.judge.judge import DeviceJudge
from kernelblaster.policies.expert.capture import capture
from kernelblaster.policies.expert.emit import emit
from kernelblaster.policies.expert.graph import UncoveredOperators
from kernelblaster.policies.expert.lower import initial_plan
from kernelblaster.policies.expert.schedules.gathered import Gathered
from kernelblaster.policies.expert.schedules.phases import InterleavedPhases
from kernelblaster.policies.expert.schedules.windows import WindowPatches
from kernelblaster.policies.expert.simplify import simplify
from kernelblaster.policies.expert.techniques import load_techniques
from kernelblaster.policies.expert.unify import NotUniform
from kernelblaster.records import Candidate, Verification

SOURCE = """
import torch
import torch.nn as nn

batch, height, width = 64, 30, 28
SMALL = {"batch": 2, "height": 12, "width": 11}

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.windows = nn.ModuleList([
            WINDOWS
        ])

    def forward(self, x):
        forms = {1: x.flatten(2), 2: x, 3: x.unflatten(1, (4, 3))}
        return tuple(window(forms[dim]) for window, dim in zip(self.windows, DIMENSIONS))

def get_inputs():
    return [torch.randn(batch, 12, height, width)]

def get_init_inputs():
    return []
"""
TUNED = ("implicit_matrix_product", "window_register_blocking")
ROUNDED = ("interleaved_phases", *TUNED, "scaled_half_operands")
TECHNIQUES: tuple[tuple[str, ...], ...] = ((), TUNED, ROUNDED)
KINDS = ("Conv", "Conv", "Conv", "ConvTranspose", "ConvTranspose", "MaxPool", "AvgPool", "AdaptiveAvgPool")


def window(random: Random, dimensions: int) -> str:
    """A module as an expression."""
    kind = random.choice(KINDS)

    def each(*values: int) -> tuple[int, ...]:
        return tuple(random.choice(values) for _ in range(dimensions))

    taps = tuple(
        min(tap, 3) if place == 0 and dimensions == 3 else tap for place, tap in enumerate(each(1, 2, 3, 5))
    )
    name = f"nn.{kind}{dimensions}d"
    if kind == "AdaptiveAvgPool":
        return f"{name}({each(1, 2, 3)})"
    if kind in ("MaxPool", "AvgPool"):
        padding = tuple(random.randint(0, tap // 2) for tap in taps)
        ceil = random.random() < 0.5
        return f"{name}({taps}, stride={each(1, 2, 3)}, padding={padding}, ceil_mode={ceil})"
    channels = 4 if dimensions == 3 else 12
    groups = random.choice([1, 1, 1, 2, channels])
    results = random.choice([groups, 33 * groups if groups < 3 else 2 * groups, 64])
    results = -(-results // groups) * groups
    stride, dilation, padding = each(1, 1, 2, 3), each(1, 1, 2), each(0, 1, 2)
    if dimensions == 3:
        dilation = (1, *dilation[1:])  # volumes are three deep
    padding = tuple(min(p, (t - 1) * d) for p, t, d in zip(padding, taps, dilation, strict=True))
    further = ""
    if kind == "ConvTranspose":
        reach = (max(s, d) for s, d in zip(stride, dilation, strict=True))
        further = f", output_padding={tuple(random.randint(0, most - 1) for most in reach)}"
    given = f"stride={stride}, padding={padding}, dilation={dilation}, groups={groups}{further}"
    return f"{name}({channels}, {results}, {taps}, {given}, bias={random.random() < 0.5})"


def write_module(random: Random, count: int, file: Path) -> list[str]:
    """A file with so many random windows; gives them as they are written there."""
    dimensions = [random.choice([1, 2, 2, 3]) for _ in range(count)]
    windows = [window(random, dim) for dim in dimensions]
    source = SOURCE.replace("WINDOWS", ",\n            ".join(windows))
    file.write_text(source.replace("DIMENSIONS", str(dimensions)))
    return windows


def judged(file: Path, judge: DeviceJudge, techniques: tuple[str, ...]) -> tuple[str, Counter[type]]:
    """What the judge says, and the schedules of the kernels, each with how many have it."""
    try:
        task = load_task(str(file))
        plan = initial_plan(simplify(capture(task)))
    except (BadTask, NotUniform, UncoveredOperators) as error:
        return f"refused: {error}"[:300], Counter()
    for technique in techniques:
        plan = next(load_techniques()[technique](plan), plan)
    outcome = judge.check(task, Candidate(source=emit(plan))).outcome
    said = "right" if isinstance(outcome, Verification) else f"{type(outcome).__name__}: {outcome}"[:300]
    return said, Counter(type(kernel.schedule) for kernel in plan.kernels)


def gathered(schedules: Counter[type]) -> int:
    """How many kernels are implicit matrix products."""
    return sum(schedules[kind] for kind in (*get_args(Gathered), InterleavedPhases))


def lines(modules: int, count: int, seed: int) -> Iterator[str]:
    yield "# Random convolutions and poolings\n"
    yield "On the emulated device, against PyTorch, at all sizes that the judge drew.\n"
    yield "| module | windows | implicit products | patches | outcome |\n|---|---|---|---|---|"
    outcomes: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    schedules: Counter[type] = Counter()
    begun = time.process_time()
    with closing(open_device("emulated")) as device, closing(DeviceJudge(device)) as judge:
        for case in range(modules):
            with TemporaryDirectory() as folder:
                file = Path(folder) / "random_windows.py"
                windows = write_module(Random(f"{seed} {case}"), count, file)
                said, found = judged(file, judge, TECHNIQUES[case % len(TECHNIQUES)])
            outcomes[said.split(":")[0]] += len(windows)
            kinds.update(window.split("(")[0].removeprefix("nn.") for window in windows)
            schedules += found
            products, patches = gathered(found), found[WindowPatches]
            yield f"| {case} | {len(windows)} | {products} | {patches} | {said} |"
    told = ", ".join(f"{number} {name}" for name, number in outcomes.most_common())
    yield f"\n{modules * count} windows: {told}; {gathered(schedules)} implicit products, "
    yield f"{schedules[WindowPatches]} with patches of results."
    yield f"\n{', '.join(f'{number} {kind}' for kind, number in kinds.most_common())}."
    yield f"\n{time.process_time() - begun:.0f} s of the CPU in this process."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--modules", type=int, default=25)
    parser.add_argument("--windows", type=int, default=20, help="of a module")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="write the table to this file too")
    options = parser.parse_args()
    written = []
    for line in lines(options.modules, options.windows, options.seed):
        written.append(line)
        print(line, flush=True)
    if options.out:
        options.out.write_text("\n".join(written) + "\n")


if __name__ == "__main__":
    main()
