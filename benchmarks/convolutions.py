"""Convolutions as plain loops and on tensor cores, on the emulated device: right, and how fast modelled.

    python benchmarks/convolutions.py [TASK ...] [--out results/convolutions.md]

Two candidates a task: the plan after simplification and fusion, and that with every convolution as an
implicit matrix product that it applies to, at float32-grade error. Times are those of the GPU model of an
H200, against its model of eager PyTorch, whose convolutions round to TF32. Without names: all core tasks with
a convolution.
"""

import argparse
from collections.abc import Iterator
from contextlib import closing
from math import exp, log
from pathlib import Path

from kernelblaster.api import load_task, open_device
from kernelblaster.judge.judge import DeviceJudge
from kernelblaster.policies.expert.capture import capture
from kernelblaster.policies.expert.emit import emit
from kernelblaster.policies.expert.lower import initial_plan
from kernelblaster.policies.expert.plan import Plan
from kernelblaster.policies.expert.schedules.gathered import GatheredProduct
from kernelblaster.policies.expert.simplify import simplify
from kernelblaster.policies.expert.techniques import load_techniques
from kernelblaster.records import Candidate, Task
from kernelblaster.records.outcome import Outcome
from kernelblaster.tasks.catalog import find

HEAD = "| task | on tensor cores | plain loops | implicit products | times as fast |\n|---|---|---|---|---|"


def fused(plan: Plan) -> Plan:
    while (further := next(load_techniques()["kernel_fusion"](plan), None)) is not None:
        plan = further
    return plan


def speedup(outcome: Outcome) -> float | None:
    """Modelled, against eager PyTorch; None where the candidate is not right."""
    found = getattr(outcome, "speedup", None)
    return None if found is None else found.estimate


def row(name: str, task: Task, judge: DeviceJudge, gains: list[float]) -> str | None:
    """A line of the table; None where no convolution of the task becomes an implicit product."""
    plain = fused(initial_plan(simplify(capture(task))))
    implicit = next(load_techniques()["implicit_matrix_product"](plain), None)
    if implicit is None:
        return None
    count = sum(isinstance(kernel.schedule, GatheredProduct) for kernel in implicit.kernels)
    cells, found = [], []
    for plan in (plain, implicit):
        outcome = judge.evaluate(task, Candidate(source=emit(plan), origin="expert")).outcome
        found.append(speedup(outcome))
        cells.append(
            f"{type(outcome).__name__}: {outcome}"[:200] if found[-1] is None else f"{found[-1]:.3f}x"
        )
    gain = found[1] / found[0] if found[0] and found[1] else None
    gains += [gain] if gain else []
    return f"| {name} | {count} | {cells[0]} | {cells[1]} | {f'{gain:.1f}' if gain else ''} |"


def lines(names: list[str], judge: DeviceJudge) -> Iterator[str]:
    yield "# Convolutions on tensor cores\n"
    yield "Modelled for an H200, against the model of eager PyTorch (TF32); not measured on a GPU.\n"
    yield HEAD
    gains: list[float] = []
    for name in names:
        task = load_task(name)
        if "conv" in task.source.lower() and (found := row(name, task, judge, gains)) is not None:
            yield found
    if gains:
        mean = exp(sum(map(log, gains)) / len(gains))
        yield f"\nGeometric mean over {len(gains)} tasks: {mean:.1f} times as fast as plain loops."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("tasks", nargs="*", default=["core"])
    parser.add_argument("--out", type=Path, help="write the table to this file too")
    options = parser.parse_args()
    names = [name for given in options.tasks for name, _ in find(given)]
    written = []
    with closing(open_device("emulated")) as device, closing(DeviceJudge(device)) as judge:
        for line in lines(names, judge):
            written.append(line)
            print(line, flush=True)
    if options.out:
        options.out.write_text("\n".join(written) + "\n")


if __name__ == "__main__":
    main()
