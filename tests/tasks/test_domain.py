from pathlib import Path
from random import Random

import pytest
import torch

from kernelblaster.tasks.catalog import load_task
from kernelblaster.tasks.domain import BITS, Domain, declared_domain, domain_of
from kernelblaster.tasks.reference import open_reference

FILE = """
import torch, torch.nn as nn
rows = 30
cols = 40
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        {build}
    def forward(self, {names}):
        return {result}
def get_inputs():
    return [{inputs}]
def get_init_inputs():
    return []
"""


def domain(folder: Path, names: str, result: str, inputs: str, build: str = "pass") -> Domain:
    path = folder / "task.py"
    path.write_text(FILE.format(names=names, result=result, inputs=inputs, build=build))
    task = load_task(str(path))
    reference = open_reference(task, task.primary, torch.device("cpu"))
    return domain_of(reference, task.primary, Random(1))


def test_numbers_that_happen_to_be_positive_may_be_negative(tmp_path: Path) -> None:
    found = domain(tmp_path, "x", "x.abs() * 2", "torch.rand(rows, cols)")
    for kind in ("negated", "zeros", "shifted", "vast-scale", "nan"):
        assert found.takes(0, kind)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("result", "kept"),
    [("x.log()", "negated"), ("x.sqrt()", "negated"), ("1 / x", "zeros"), ("x.exp()", "vast-scale")],
)
def test_a_domain_is_kept(tmp_path: Path, result: str, kept: str) -> None:
    found = domain(tmp_path, "x", result, "torch.rand(rows, cols) + 0.01")
    assert not found.takes(0, kept)  # type: ignore[arg-type]
    assert found.takes(0, "beginning")


def test_each_input_has_its_own(tmp_path: Path) -> None:
    """Probabilities must lie in [0, 1]: PyTorch raises, and a GPU would end with an assertion."""
    result = "nn.functional.binary_cross_entropy(x, y, reduction='none')"
    found = domain(tmp_path, "x, y", result, "torch.rand(rows, cols), torch.rand(rows, cols)")
    assert not found.takes(0, "negated") and not found.takes(0, "scaled")
    assert found.takes(1, "zeros")


def test_scalars_move_where_the_module_lets_them(tmp_path: Path) -> None:
    found = domain(
        tmp_path, "x, a, k, f", "x.roll(k, 1) * a if f else x", "torch.randn(rows, cols), 1.5, 2, True"
    )
    numbers, shifts, flags = ({move[place] for move in found.scalars} for place in range(3))
    assert len(numbers) > 2 and 0.0 in numbers and min(numbers) < 0
    assert len(shifts) > 2 and flags == {True, False}


def test_a_scalar_that_changes_shapes_stays(tmp_path: Path) -> None:
    found = domain(tmp_path, "x, dim", "x.sum(dim)", "torch.randn(rows, cols), 1")
    assert {move[0] for move in found.scalars} <= {-1}


def test_whole_number_parameters_are_shuffled(tmp_path: Path) -> None:
    build = "self.register_buffer('order', torch.arange(cols).flip(0))"
    found = domain(tmp_path, "x", "x[:, self.order]", "torch.randn(rows, cols)", build)
    assert found.shuffled == {"order"}


def test_declared_distributions_allow_what_they_say(tmp_path: Path) -> None:
    path = tmp_path / "copy.cu"
    path.write_text(
        "// kernelblaster-task\n// size: n = 64\n// output: out float32 [n]\n"
        "// input: x float32 [n] normal\n// input: p float32 [n] positive\n"
    )
    task = load_task(str(path))
    found = declared_domain(task.source, task.path, task.signature.input_tensors)
    assert found.takes(0, "negated") and not found.takes(1, "negated") and not found.takes(0, "nan")


def test_whole_numbers_are_of_every_length(tmp_path: Path) -> None:
    """A kernel may pass a scalar on in a few bits: between a half word and a word, too."""
    found = domain(tmp_path, "x, shift", "torch.roll(x, shift)", "torch.rand(rows, cols), 3")
    lengths = [abs(move[0]).bit_length() for move in found.scalars]
    for fewest, most in BITS:
        assert any(fewest <= length <= most for length in lengths)


def test_a_busy_machine_finds_the_same_domain(tmp_path: Path) -> None:
    found = domain(tmp_path, "x", "(__import__('time').sleep(0.1), x * 2)[1]", "torch.randn(rows, cols)")
    assert not found.cut_short and found.takes(0, "negated") and found.takes(0, "vast-scale")


def test_what_was_not_tried_in_time_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kernelblaster.tasks.domain.LIMIT_S", 0.0)
    found = domain(tmp_path, "x", "x * 2", "torch.randn(rows, cols)")
    assert found.cut_short and not found.takes(0, "negated")
