"""What the expert policy covers: candidates for every task, judged on the emulated device.

    python benchmarks/expert_coverage.py [TASK ...] [--out results/expert-coverage.md] [--capture-only]

Two candidates a task: the initial plan, and the plan after simplification, fusion and vectorization
wherever they apply. One line a task: right, wrong (with the outcome), or refused (with the operators
that no family covers yet), and how many kernels they have, then the totals. Without names: all core
tasks. `--capture-only` stops before judging.
"""

import argparse
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kernelblaster.api import load_task, open_device
from kernelblaster.judge.judge import DeviceJudge
from kernelblaster.policies.expert.capture import capture
from kernelblaster.policies.expert.emit import emit
from kernelblaster.policies.expert.graph import UncoveredOperators
from kernelblaster.policies.expert.lower import initial_plan
from kernelblaster.policies.expert.plan import Plan
from kernelblaster.policies.expert.simplify import simplify
from kernelblaster.policies.expert.techniques import load_techniques
from kernelblaster.policies.expert.unify import NotUniform
from kernelblaster.records import Candidate, Task, Verification
from kernelblaster.tasks.catalog import find

HEAD = "| task | initial | kernels | rewritten | kernels | detail |\n|---|---|---|---|---|---|"


@dataclass(frozen=True)
class Row:
    task: str
    results: tuple[str, str]
    kernels: tuple[int, int] | None
    detail: str

    def __str__(self) -> str:
        counts = self.kernels or ("", "")
        columns = [self.task, *(str(c) for pair in zip(self.results, counts, strict=True) for c in pair)]
        return f"| {' | '.join([*columns, self.detail])} |"


def rewritten(plan: Plan) -> Plan:
    """The plan after the techniques that come to an end by themselves."""
    for name in ("kernel_fusion", "vectorized_memory_access"):
        while (following := next(load_techniques()[name](plan), None)) is not None:
            plan = following
    return plan


def row(name: str, judge: DeviceJudge | None) -> Row:
    task = load_task(name)
    try:
        graph = capture(task)
        plans = initial_plan(graph), rewritten(initial_plan(simplify(graph)))
    except UncoveredOperators as error:
        return Row(name, ("refused", ""), None, ", ".join(error.operators))
    except NotUniform as error:
        return Row(name, ("refused", ""), None, str(error))
    results, details = zip(*(judged(task, plan, judge) for plan in plans), strict=True)
    counts = len(plans[0].kernels), len(plans[1].kernels)
    return Row(name, results, counts, "; ".join(filter(None, details)))


def judged(task: Task, plan: Plan, judge: DeviceJudge | None) -> tuple[str, str]:
    """Whether the plan's candidate is right, and if not, why."""
    source = emit(plan)
    if judge is None:
        return "covered", ""
    outcome = judge.check(task, Candidate(source=source, origin="expert")).outcome
    if isinstance(outcome, Verification):
        return "right", ""
    return "wrong", f"{type(outcome).__name__}: {outcome}"[:300]


def lines(names: list[str], judge: DeviceJudge | None) -> Iterator[str]:
    yield "# What the expert policy covers\n"
    yield "As first written, and after simplification, fusion and vectorization; on the emulated device.\n"
    yield HEAD
    totals: Counter[str] = Counter()
    for name in names:
        found = row(name, judge)
        totals[" and ".join(filter(None, dict.fromkeys(found.results)))] += 1
        yield str(found)
    yield f"\n{len(names)} tasks: " + ", ".join(f"{n} {result}" for result, n in totals.most_common())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("tasks", nargs="*", default=["core"])
    parser.add_argument("--out", type=Path, help="write the table to this file too")
    parser.add_argument("--capture-only", action="store_true", help="do not judge the candidates")
    options = parser.parse_args()
    names = [name for given in options.tasks for name, _ in find(given)]
    judge = None if options.capture_only else DeviceJudge(open_device("emulated"))
    written = []
    for line in lines(names, judge):
        written.append(line)
        print(line, flush=True)
    if options.out:
        options.out.write_text("\n".join(written) + "\n")


if __name__ == "__main__":
    main()
