"""Attention as one kernel, in all shapes of blocks that the technique offers, judged and timed.

    python benchmarks/attention.py [TASK ...] [--device cuda|emulated] [--dtype TYPE] [--every] [--out FILE]

One line a schedule of `online_attention`, with sizes as constants: outcome, time of the whole call,
PyTorch's, and the time of every kernel of the call where it was profiled. Other products of the task get
split operands. Only the first schedule without `--every`. Without names: the attention tasks of core.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

from kernelblaster.api import DeviceKind, load_task, open_judge
from kernelblaster.policies.expert.capture import capture
from kernelblaster.policies.expert.emit import emit
from kernelblaster.policies.expert.lower import initial_plan
from kernelblaster.policies.expert.plan import Plan
from kernelblaster.policies.expert.schedules.attention import OnlineAttention
from kernelblaster.policies.expert.simplify import simplify
from kernelblaster.policies.expert.techniques import load_techniques
from kernelblaster.records import Candidate, Evaluation, Task

TASKS = ("core/level1/attention", "core/level1/attention_causal", "core/level3/causal_attention_block")
AFTER = (
    *("split_operand_tensor_cores", "tensor_core_utilization", "warpgroup_matrix_multiply"),
    *("vectorized_memory_access", "rows_in_registers", "index_simplification"),
)
HEAD = (
    "| task | schedule | outcome | candidate us | baseline us | speedup | kernels |",
    "|" + "---|" * 7,
)


def plans(task: Task) -> Iterator[tuple[str, Plan]]:
    techniques = load_techniques()
    plan = initial_plan(simplify(capture(task)))
    while (following := next(techniques["kernel_fusion"](plan), None)) is not None:
        plan = following
    for changed in techniques["online_attention"](plan):
        found = [k.schedule for k in changed.kernels if isinstance(k.schedule, OnlineAttention)]
        shape = found[0]
        tuned = changed
        for name in AFTER:
            tuned = next(techniques[name](tuned), tuned)
        yield f"{shape.fragments} x 16 x {shape.warps} queries, {shape.keys} keys", tuned


def line(task: Task, schedule: str, evaluation: Evaluation) -> str:
    timing, profile = evaluation.timing, evaluation.profile
    cells = [task.name, schedule, evaluation.outcome.kind]
    if timing is None:
        cells += [str(evaluation.outcome)[:300].replace("|", "/").replace("\n", " "), "", ""]
    else:
        cells += [f"{timing.candidate_us:.1f}", f"{timing.baseline_us:.1f}", f"{timing.speedup.estimate:.2f}"]
    kernels = profile.kernels if profile is not None else ()
    cells.append(", ".join(f"{k.name.split('(')[0][:40]} {k.duration_us or 0:.1f}" for k in kernels))
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("tasks", nargs="*", default=TASKS)
    parser.add_argument("--device", choices=("cuda", "emulated"), default="emulated")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--every", action="store_true", help="all schedules, not only the first")
    parser.add_argument("--out", type=Path, help="write the table to this file")
    options = parser.parse_args()
    device: DeviceKind = options.device
    jobs = []
    for name in options.tasks:
        task = load_task(name, options.dtype)
        for schedule, plan in plans(task):
            jobs.append((task, schedule, Candidate(source=emit(plan), origin=f"expert: {schedule}")))
            if not options.every:
                break
    lines = list(HEAD)
    print("\n".join(lines), flush=True)
    with open_judge(device, profile=True) as judge:
        evaluations = judge.evaluate_many([(task, candidate) for task, _, candidate in jobs])
        for (task, schedule, _), evaluation in zip(jobs, evaluations, strict=True):
            lines.append(line(task, schedule, evaluation))
            print(lines[-1], flush=True)
        title = f"# Attention as one kernel on {judge.device.name}"
    if options.out:
        options.out.write_text("\n".join([title, "", *lines]) + "\n")


if __name__ == "__main__":
    main()
