"""How near to the memory floor the expert policy's kernels come, techniques applied one after another.

    python benchmarks/expert_kernels.py [TASK ...] [--device cuda|emulated] [--path A,B,C ...] [--out FILE]

A path is a list of techniques; the first plan that each yields is taken, of one with a star behind its name
every plan, and one that does not apply is passed over. Simplification and fusion come first. Every path is
judged; of those that give the same source, one. Without names: the tasks of levels 1 and 2 that need no
matrix product; without paths: those below.
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from kernelblaster.api import DeviceKind, load_task, open_judge
from kernelblaster.errors import KernelBlasterError
from kernelblaster.policies.expert.capture import capture
from kernelblaster.policies.expert.emit import emit
from kernelblaster.policies.expert.lower import initial_plan
from kernelblaster.policies.expert.plan import Plan
from kernelblaster.policies.expert.simplify import simplify
from kernelblaster.policies.expert.techniques import load_techniques
from kernelblaster.records import Candidate, Evaluation, Task
from kernelblaster.tasks.catalog import find
from kernelblaster.testing.corpus import CORRECT

SINGLE = "warp_shuffle_reduction,online_reduction,two_level_reduction,vectorized_memory_access"
ROWS = "vectorized_memory_access,rows_in_registers,rows_across_blocks,transposed_staging"
LAST = "thread_coarsening,index_simplification,fast_math"
PRODUCTS = "split_operand_tensor_cores,warpgroup_matrix_multiply"
SPLIT = "split_operand_tensor_cores,split_k,warpgroup_matrix_multiply"
PATHS = (
    f"{PRODUCTS},warp_shuffle_reduction,{ROWS},two_level_reduction",
    f"{PRODUCTS},warp_shuffle_reduction,{ROWS},two_level_reduction,{LAST}",
    f"{SPLIT},{SINGLE},{ROWS},unrolling",
    f"{SPLIT},{SINGLE},{ROWS},index_simplification,fast_math",
)
TASKS = (
    *("argmax_columns", "axpy", "batch_norm", "broadcast_affine", "cosine_similarity", "cross_entropy"),
    *("embedding", "frobenius_norm", "gelu", "group_norm", "hinge_loss", "huber_loss", "instance_norm"),
    *("kl_div", "l2_norm", "layer_norm", "log_softmax", "logsumexp", "masked_fill", "matmul_vector"),
    *("max_rows", "max_with_index", "mean_middle", "mean_variance", "mse_loss", "relu", "rms_norm"),
    *("softmax", "sum_all", "sum_columns", "sum_rows", "swish", "transpose_last"),
)
FUSED = ("embedding_add_layernorm", "residual_layernorm_gelu", "rmsnorm_rotary", "scale_mask_softmax")
HEAD = (
    "| task | techniques | outcome | candidate us | baseline us | speedup | floor us | x floor |",
    "|---|---|---|---|---|---|---|---|",
)
NEAR = 1.2  # times the floor


@dataclass(frozen=True)
class Job:
    """A task's candidate, and the techniques that were applied to get it."""

    task: Task
    applied: tuple[str, ...]
    candidate: Candidate


def starting_plan(task: Task) -> Plan:
    plan = initial_plan(simplify(capture(task)))
    while (following := next(load_techniques()["kernel_fusion"](plan), None)) is not None:
        plan = following
    return plan


def jobs_of(name: str, paths: list[str]) -> list[Job]:
    task = load_task(name)
    start = starting_plan(task)
    found: dict[str, Job] = {}
    for path in paths:
        for plan, applied in plans_of(start, path.split(",")):
            source = emit(plan)
            origin = "expert: " + ", ".join(applied)
            found.setdefault(source, Job(task, applied, Candidate(source=source, origin=origin)))
    return list(found.values())


def plans_of(
    plan: Plan, path: Sequence[str], applied: tuple[str, ...] = ()
) -> Iterator[tuple[Plan, tuple[str, ...]]]:
    """The plans at the end of a path of techniques from `plan` on, with what was applied to get there."""
    if not path:
        yield plan, applied
        return
    name = path[0].removesuffix("*")
    following = list(islice(load_techniques()[name](plan), None if path[0].endswith("*") else 1))
    if not following:
        yield from plans_of(plan, path[1:], applied)
    for place, further in enumerate(following):
        said = f"{name} {place}" if len(following) > 1 else name
        yield from plans_of(further, path[1:], (*applied, said))


def line(job: Job, evaluation: Evaluation) -> str:
    timing = evaluation.timing
    cells = [job.task.name, ", ".join(job.applied) or "none", evaluation.outcome.kind]
    if timing is None:
        cells += [str(evaluation.outcome)[:200].replace("|", "/").replace("\n", " "), *[""] * 4]
    else:
        floor = timing.floor_us
        cells += [f"{timing.candidate_us:.1f}", f"{timing.baseline_us:.1f}", f"{timing.speedup.estimate:.2f}"]
        cells += [f"{floor:.1f}", f"{timing.candidate_us / floor:.2f}"] if floor else ["", ""]
    return "| " + " | ".join(cells) + " |"


def best_of_each(found: list[tuple[Job, Evaluation]]) -> list[str]:
    """The fastest correct candidate of each task, nearest to the floor first."""
    best: dict[str, tuple[float, str]] = {}
    for job, evaluation in found:
        timing = evaluation.timing
        if evaluation.outcome.kind in CORRECT and timing is not None and timing.floor_us:
            ratio = timing.candidate_us / timing.floor_us
            here = ratio, line(job, evaluation)
            best[job.task.name] = min(best.get(job.task.name, here), here)
    near = sum(ratio <= NEAR for ratio, _ in best.values())
    told = f"{near} of {len(best)} within {NEAR} times the floor of their bytes and operations."
    return [told, "", *HEAD, *(row for _, row in sorted(best.values()))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    default = [f"core/level1/{name}" for name in TASKS] + [f"core/level2/{name}" for name in FUSED]
    parser.add_argument("tasks", nargs="*", default=default)
    parser.add_argument("--device", choices=("cuda", "emulated"), default="emulated")
    parser.add_argument("--path", nargs="*", default=list(PATHS), help="techniques, separated by commas")
    parser.add_argument("--out", type=Path, help="write the tables to this file")
    options = parser.parse_args()
    jobs: list[Job] = []
    for given in options.tasks:
        for name, _ in find(given):
            try:
                jobs += jobs_of(name, options.path)
            except KernelBlasterError as error:
                print(f"{name}: {error}")
    device: DeviceKind = options.device
    found: list[tuple[Job, Evaluation]] = []
    with open_judge(device, profile=device == "emulated") as judge:
        title = f"# Kernels of the expert policy on {judge.device.name}"
        evaluations = judge.evaluate_many([(job.task, job.candidate) for job in jobs])
        for job, evaluation in zip(jobs, evaluations, strict=True):
            found.append((job, evaluation))
            print(line(job, evaluation), flush=True)
    best = best_of_each(found)
    print("\n".join(best))
    if options.out:
        every = ["## All that were judged", "", *HEAD, *(line(*one) for one in found)]
        options.out.write_text("\n".join([title, "", *best, "", *every]) + "\n")


if __name__ == "__main__":
    main()
