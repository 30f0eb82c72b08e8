"""Modules made at random give candidates that are right after simplification and fusion.

All of them are outputs of one module, so that one compilation serves them all.
"""

from contextlib import closing
from pathlib import Path
from random import Random

from kernelblaster.api import load_task, open_device
from kernelblaster.judge.judge import DeviceJudge
from kernelblaster.policies.expert.capture import capture
from kernelblaster.policies.expert.emit import emit
from kernelblaster.policies.expert.lower import initial_plan
from kernelblaster.policies.expert.simplify import simplify
from kernelblaster.policies.expert.techniques import load_techniques
from kernelblaster.records import Candidate, Verification

CASES = 20
SOURCE = """
import torch
import torch.nn as nn
import torch.nn.functional as F

rows = 64
columns = 48
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
# All are matrices of rows and columns, and none lets numbers grow or shrink much.
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
    "torch.cat([torch.relu({0}[:, 6:]), {1}[:, :6]], dim=1)",
)


def made_at_random(random: Random, case: int) -> list[str]:
    """Statements, each of which uses some of what there is already, at last what came before."""
    names, statements = ["x", "y"], []
    for step in range(random.randint(1, 3)):
        statements.append(f"v{case}_{step} = {random.choice(FORMS).format(names[-1], random.choice(names))}")
        names.append(f"v{case}_{step}")
    return statements


def test_random_modules_are_right_when_fused(compiler: str, tmp_path: Path) -> None:
    random = Random(7)
    cases = [made_at_random(random, case) for case in range(CASES)]
    lines = "\n        ".join(line for case in cases for line in case)
    results = ", ".join(case[-1].split()[0] for case in cases)
    file = tmp_path / "random_module.py"
    file.write_text(SOURCE.replace("STATEMENTS", lines).replace("RESULTS", results))
    task = load_task(str(file))
    first = initial_plan(simplify(capture(task)))
    plan = next(load_techniques()["kernel_fusion"](first))
    assert len(plan.kernels) < len(first.kernels) / 2
    with closing(open_device("emulated")) as device, closing(DeviceJudge(device)) as judge:
        outcome = judge.check(task, Candidate(source=emit(plan))).outcome
    assert isinstance(outcome, Verification), outcome
