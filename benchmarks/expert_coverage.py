"""What the expert policy covers: the initial candidate of every task, judged on the emulated device.

    python benchmarks/expert_coverage.py [TASK ...] [--json FILE] [--capture-only] [--rewritten]

One line a task: right, wrong (with the outcome), or refused (with the operators that no family
covers yet), then the totals. Without names: all core tasks. `--capture-only` stops before judging.
`--rewritten` judges the plan after simplification, fusion and vectorization wherever they apply.
"""

import argparse
import json
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from kernelblaster.api import load_task, open_device
from kernelblaster.errors import KernelBlasterError
from kernelblaster.judge.judge import Judge
from kernelblaster.policies.expert.emit import emit
from kernelblaster.policies.expert.graph import capture
from kernelblaster.policies.expert.lower import UncoveredOperators, initial_plan
from kernelblaster.policies.expert.plan import Plan
from kernelblaster.policies.expert.simplify import simplify
from kernelblaster.policies.expert.techniques import load_techniques
from kernelblaster.policies.expert.unify import NotUniform
from kernelblaster.records import Candidate, Task, Verification
from kernelblaster.tasks.catalog import find

REWRITES = ("kernel_fusion", "vectorized_memory_access")  # those that come to an end by themselves


def plan_of(task: Task, *, rewritten: bool) -> Plan:
    graph = capture(task)
    if not rewritten:
        return initial_plan(graph)
    plan = initial_plan(simplify(graph))
    for name in REWRITES:
        while (following := next(load_techniques()[name](plan), None)) is not None:
            plan = following
    return plan


def rows(names: list[str], judge: Judge | None, *, rewritten: bool) -> Iterator[dict[str, object]]:
    for name in names:
        start = time.monotonic()
        row: dict[str, object] = {"task": name, "kernels": None, "detail": ""}
        try:
            task = load_task(name)
            plan = plan_of(task, rewritten=rewritten)
            row["kernels"] = len(plan.kernels)
            candidate = Candidate(source=emit(plan), origin="expert")
            if judge is None:
                row["result"] = "covered"
            else:
                outcome = judge.check(task, candidate).outcome
                right = isinstance(outcome, Verification)
                row["result"] = "right" if right else "wrong"
                row["detail"] = "" if right else f"{type(outcome).__name__}: {outcome}"[:300]
        except UncoveredOperators as error:
            row |= {"result": "refused", "detail": ", ".join(error.operators)}
        except NotUniform as error:
            row |= {"result": "refused", "detail": str(error)}
        except KernelBlasterError as error:
            row |= {"result": "failed", "detail": str(error)}
        yield row | {"seconds": round(time.monotonic() - start, 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("tasks", nargs="*", default=["core"])
    parser.add_argument("--json", type=Path, help="write the rows to this file too")
    parser.add_argument("--capture-only", action="store_true", help="do not judge the candidates")
    parser.add_argument("--rewritten", action="store_true", help="apply everything that applies first")
    options = parser.parse_args()
    names = [name for given in options.tasks for name, _ in find(given)]
    judge = None if options.capture_only else Judge(open_device("emulated"))
    print(f"| {'task':52} | {'result':8} | kernels | detail |\n|{'-' * 54}|{'-' * 10}|---------|--------|")
    found = []
    for row in rows(names, judge, rewritten=options.rewritten):
        found.append(row)
        kernels = row["kernels"] if row["kernels"] is not None else ""
        print(f"| {row['task']:52} | {row['result']:8} | {kernels:7} | {row['detail']} |", flush=True)
    totals = Counter(str(row["result"]) for row in found)
    print(f"\n{len(found)} tasks: " + ", ".join(f"{n} {result}" for result, n in totals.most_common()))
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
