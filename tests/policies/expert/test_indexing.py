"""Slices that are read at some sizes only, and slices that are written."""

from pathlib import Path

import pytest
import torch

from kernelblaster.api import load_task
from kernelblaster.judge.judge import DeviceJudge
from kernelblaster.policies.expert.capture import capture
from kernelblaster.policies.expert.emit import emit
from kernelblaster.policies.expert.graph import UncoveredOperators
from kernelblaster.policies.expert.indexing import PlainIndexing
from kernelblaster.policies.expert.lower import initial_plan
from kernelblaster.records import Candidate, Verification

# The mask as in nanoGPT: at the longest context, and at no other, the slice is the whole of it.
FILE = """
import torch, torch.nn as nn
heads = 3
context = 256
SMALL = {"heads": 2, "context": 13}
class Model(nn.Module):
    def __init__(self, context):
        super().__init__()
        self.register_buffer("bias", torch.tril(torch.ones(context, context)).view(1, context, context))
    def forward(self, x):
        T = x.shape[2]
        y = x * 2.0
        y[:, 0] = 0.5
        y[..., -1] = 1
        y[:, 1:3] = x[:, :2]
        y[:, :, 1::3] += x[:, :, 1:2]
        return y.masked_fill(~(self.bias[:, :T, :T] > 0), -1.0)
def get_inputs():
    return [torch.randn(heads, context, context)]
def get_init_inputs():
    return [context]
"""


def test_slices_that_are_read_and_written_are_right(judge: DeviceJudge, tmp_path: Path) -> None:
    (tmp_path / "task.py").write_text(FILE)
    task = load_task(str(tmp_path / "task.py"))
    source = emit(initial_plan(capture(task)))
    outcome = judge.check(task, Candidate(source=source)).outcome
    assert isinstance(outcome, Verification), outcome


def test_a_constant_tensor_is_refused_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "task.py").write_text(FILE.replace("x * 2.0", "x * torch.tensor([2.0] * 65)[0]"))
    with pytest.raises(
        UncoveredOperators, match=r"a constant tensor of the module \(register it as a buffer"
    ):
        capture(load_task(str(tmp_path / "task.py")))


@pytest.mark.parametrize(
    "index",
    [
        0,
        slice(1, 3),
        (slice(None), slice(0, 4, 2)),
        (..., slice(-3, None)),
        (..., None, slice(1, -1)),
        (None, 1, slice(None, 9), ..., 2),
        (slice(0, 2), torch.tensor([1, 0])),
    ],
    ids=str,
)
def test_it_means_what_pytorch_means(index: object) -> None:
    tensor = torch.arange(60.0).reshape(3, 4, 5)
    expected = tensor[index]  # type: ignore[index]
    changed = tensor.clone()
    changed[index] = 7  # type: ignore[index]
    other = tensor.clone()
    with PlainIndexing():
        assert torch.equal(tensor[index], expected)  # type: ignore[index]
        other[index] = 7  # type: ignore[index]
    assert torch.equal(other, changed)
