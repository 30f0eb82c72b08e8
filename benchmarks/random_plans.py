"""Random modules through random techniques, judged on the emulated device: none may change what is computed.

    python benchmarks/random_plans.py [--count 40] [--seed 0] [--out results/random-plans.md]

Each module has a few random statements. Its plan is fused, goes through random techniques, of each of which
one of the first plans is taken, and is emitted, compiled and checked on all cases of the judge, at small
sizes: the large ones only decide which techniques apply. A technique that repeats its plan, or a source that
does not compile or is not right, is a fault."""

import argparse
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from kernelblaster.api import load_task, open_device
from kernelblaster.errors import BadTask
from kernelblaster.judge.judge import DeviceJudge
from kernelblaster.policies.expert.capture import capture
from kernelblaster.policies.expert.emit import emit
from kernelblaster.policies.expert.lower import initial_plan
from kernelblaster.policies.expert.plan import Plan
from kernelblaster.policies.expert.simplify import simplify
from kernelblaster.policies.expert.techniques import load_techniques
from kernelblaster.policies.expert.unify import NotUniform
from kernelblaster.records import Candidate, Task, Verification

SOURCE = """
import torch
import torch.nn as nn
import torch.nn.functional as F

rows = ROWS
columns = COLUMNS
SMALL = {"rows": 5, "columns": 12}

class Model(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.w = nn.Parameter(torch.randn(columns, columns))

    def forward(self, x, y):
        STATEMENTS
        return RESULTS

def get_inputs():
    return [torch.randn(rows, columns), torch.randn(rows, columns)]

def get_init_inputs():
    return [columns]
"""
# All are matrices of rows and columns, and none lets numbers grow or shrink much. What they begin with is
# exact: a normalization of one column shows the last bit of a sum that another pass contracts otherwise.
FORMS = (
    "torch.tanh({0})",
    "torch.sigmoid({0})",
    "F.gelu({0})",
    "torch.where({0} > {1}, {0}, -{1})",
    "({0} + {1}) * 0.5",
    "torch.sin({0}) * torch.cos({1})",
    "torch.maximum({0}, {1})",
    "({0} - {0}.mean(dim=1, keepdim=True))",
    "({0} + {1}.amax(dim=0, keepdim=True))",
    "({0} / (1 + {1}.abs().mean(dim=1, keepdim=True)))",
    "({0} / (1 + {0}.square().mean()))",
    "F.layer_norm({0}, {0}.shape[1:])",
    "torch.softmax({0}, dim=1) * 8",
    "({0} @ self.w) / 16",
    "(x @ x.t() @ {0}) / 256",
    "{0}.flip(1)",
    "{0}.t().contiguous().view(-1).view({0}.shape[1], -1).t()",
    "torch.cat([torch.relu({0}[:, 1:]), {1}[:, :1]], dim=1)",
)
SIZES = ((64, 48), (4096, 1536), (512, 20000), (60000, 128))
STEPS, CHOICES = 5, 4


@dataclass(frozen=True)
class Walk:
    """A plan, and the techniques that led to it."""

    plan: Plan
    applied: tuple[str, ...]


def statements(random: Random, case: int) -> list[str]:
    """Statements, each of which uses some of what there is already, at last what came before."""
    names, found = ["x", "y", f"v{case}"], [f"v{case} = torch.maximum(x, y)"]
    for step in range(random.randint(1, 3)):
        found.append(f"v{case}_{step} = {random.choice(FORMS).format(names[-1], random.choice(names))}")
        names.append(f"v{case}_{step}")
    return found


def write_module(random: Random, folder: Path, cases: int, sizes: tuple[int, int]) -> Task:
    """A task with so many random outputs."""
    made = [statements(random, case) for case in range(cases)]
    lines = "\n        ".join(line for case in made for line in case)
    results = ", ".join(case[-1].split()[0] for case in made)
    source = SOURCE.replace("ROWS", str(sizes[0])).replace("COLUMNS", str(sizes[1]))
    file = folder / "random_module.py"
    file.write_text(source.replace("STATEMENTS", lines).replace("RESULTS", results))
    return load_task(str(file))


def random_walk(random: Random, plan: Plan, steps: int) -> Walk:
    """The plan after so many random techniques that apply; one that gives the plan itself is an error."""
    known = load_techniques(emulated=True)
    applied: list[str] = []
    while len(applied) < steps:
        for name in random.sample(sorted(known), len(known)):
            found = list(islice(known[name](plan), CHOICES))
            assert all(further.kernels != plan.kernels for further in found), name
            if found:
                break
        else:
            break
        plan = random.choice(found)
        applied.append(name)
    return Walk(plan, tuple(applied))


def fused(plan: Plan) -> Plan:
    return next(load_techniques()["kernel_fusion"](plan), plan)


def lines(count: int, seed: int) -> Iterator[str]:
    yield "# Random modules through random techniques\n"
    yield "On the emulated device; the techniques in the order in which they were applied.\n"
    yield "| module | sizes | techniques | outcome |\n|---|---|---|---|"
    outcomes: Counter[str] = Counter()
    used: Counter[str] = Counter()
    begun = time.perf_counter()
    with closing(open_device("emulated")) as device, closing(DeviceJudge(device)) as judge:
        for case in range(count):
            random = Random(f"{seed} {case}")
            sizes = random.choice(SIZES)
            with TemporaryDirectory() as folder:
                task = write_module(random, Path(folder), random.randint(1, 2), sizes)
                applied, said = _judged(random, task, judge)
            outcomes[said.split(":")[0]] += 1
            used.update(applied)
            yield f"| {case} | {sizes[0]} x {sizes[1]} | {', '.join(applied)} | {said} |"
    told = ", ".join(f"{number} {name}" for name, number in outcomes.most_common())
    yield f"\n{count} modules: {told}; {time.perf_counter() - begun:.0f} s."
    yield f"\nTechniques that were applied: {', '.join(f'{n} {name}' for name, n in used.most_common())}."


def _judged(random: Random, task: Task, judge: DeviceJudge) -> tuple[tuple[str, ...], str]:
    """The techniques of a random walk, and what the judge says of where it ends."""
    try:
        walk = random_walk(random, fused(initial_plan(simplify(capture(task)))), STEPS)
        outcome = judge.check(task, Candidate(source=emit(walk.plan))).outcome
    except (BadTask, NotUniform) as refused:  # an output that hardly depends on its inputs, for example
        return (), f"no task: {refused}"[:120]
    if isinstance(outcome, Verification):
        return walk.applied, "right"
    return walk.applied, f"{type(outcome).__name__}: {outcome}"[:200].replace("\n", " ")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="write the table to this file too")
    options = parser.parse_args()
    written = []
    for line in lines(options.count, options.seed):
        written.append(line)
        print(line, flush=True)
    if options.out:
        options.out.write_text("\n".join(written) + "\n")


if __name__ == "__main__":
    main()
