from pathlib import Path

import pytest
from torch.nn.attention import SDPBackend, sdpa_kernel

from kernelblaster.tasks.catalog import load_task
from kernelblaster.tasks.cautions import cautions
from kernelblaster.tasks.fitness import fitness_of
from kernelblaster.tasks.floor import floor_of

FILE = """
import torch, torch.nn as nn
rows = 16
cols = 32
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(cols))
        self.drop = nn.Dropout(0.5)
        self.norm = nn.BatchNorm1d(cols)
    def forward(self, x, y):
        return BODY
def get_inputs():
    return [torch.randn(rows, cols), torch.rand(rows, cols)]
def get_init_inputs():
    return []
"""


def check(folder: Path, body: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    path = folder / "task.py"
    path.write_text(FILE.replace("BODY", body))
    fitness = fitness_of(load_task(str(path)))
    return fitness.problems, fitness.insensitive


def test_a_fit_task(tmp_path: Path) -> None:
    problems, insensitive = check(tmp_path, "x * y + self.bias")
    assert problems == ()
    assert "bias" not in insensitive


def test_a_bias_that_a_norm_takes_out_is_noted(tmp_path: Path) -> None:
    problems, insensitive = check(tmp_path, "self.norm(x * y + self.bias)")
    assert problems == ()
    assert "bias" in insensitive


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("x * y + self.bias, x.topk(3)[1]", None),
        ("x.gather(1, y.topk(3)[1]) + self.bias[:3]", "topk takes"),
        ("x.gather(1, y.argsort(1)) + self.bias", "sort takes"),
        ("x.gather(1, y.argsort(dim=1, stable=True)) + self.bias", None),
        ("x + self.bias, y.topk(3, sorted=False)[1]", "topk(sorted=False)"),
    ],
)
def test_a_choice_that_is_open_and_matters_is_noted(tmp_path: Path, body: str, said: str | None) -> None:
    path = tmp_path / "task.py"
    path.write_text(FILE.replace("BODY", body))
    fitness = fitness_of(load_task(str(path)))
    assert fitness.fit
    found = [one for one in cautions(fitness) if "PyTorch" in one]
    assert len(found) == (said is not None) and (said or "") in "".join(found)


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("self.drop(x) * y", "random"),
        ("x.mul_(2) * y", "in place"),
        ("torch.softmax(x.sum(1, keepdim=True), 1) + 0 * y.sum()", "does not depend on any input"),
        ("x - x + y - y", "zero everywhere"),
        ("torch.relu(x)", "does not depend on input y"),
        ("torch.log(-y) + x", "not finite"),
    ],
)
def test_unfit_tasks_say_why(tmp_path: Path, body: str, problem: str) -> None:
    problems, _ = check(tmp_path, body)
    assert any(problem in text for text in problems), problems


def test_the_floor_counts_bytes_and_operations(tmp_path: Path) -> None:
    path = tmp_path / "task.py"
    path.write_text(FILE.replace("BODY", "x @ y.T + self.bias[:16]"))
    floor = floor_of(load_task(str(path)))
    assert floor.operations == 2 * 16 * 16 * 32
    assert floor.bytes >= 4 * (2 * 16 * 32 + 16 * 16)
    assert floor.certain_bytes == 4 * 16 * 16  # a slice may read part of its input


@pytest.mark.parametrize(("causal", "pairs"), [(False, 7 * 5), (True, 1 + 2 + 3 + 4 + 5 + 5 + 5)])
def test_attention_is_counted_as_written(tmp_path: Path, causal: bool, pairs: int) -> None:
    path = tmp_path / "attention.py"
    path.write_text(
        "import torch, torch.nn as nn\n"
        "queries = 7\n"
        "class Model(nn.Module):\n"
        "    def forward(self, q, k, v):\n"
        f"        return nn.functional.scaled_dot_product_attention(q, k, v, is_causal={causal})\n"
        "def get_inputs():\n"
        "    return [torch.randn(2, 3, n, 16) for n in (queries, 5, 5)]\n"
        "def get_init_inputs():\n"
        "    return []\n"
    )
    with sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]):
        assert floor_of(load_task(str(path))).operations == 2 * 2 * 3 * pairs * (16 + 16)
