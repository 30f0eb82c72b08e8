"""Attention as one kernel is right on the emulated device, with every mask, at odd sizes, in all precisions;
it is found only where the scores are needed nowhere else."""

from functools import cache
from pathlib import Path

import pytest

from kernelblaster.api import load_task
from kernelblaster.devices.occupancy import limits_of
from kernelblaster.devices.specs import gpu_named
from kernelblaster.judge.judge import DeviceJudge
from kernelblaster.policies.expert.attention import Band, as_attention, band
from kernelblaster.policies.expert.capture import capture
from kernelblaster.policies.expert.emit import emit
from kernelblaster.policies.expert.index import number
from kernelblaster.policies.expert.lower import initial_plan
from kernelblaster.policies.expert.plan import Plan
from kernelblaster.policies.expert.schedules.attention import OnlineAttention
from kernelblaster.policies.expert.simplify import simplify
from kernelblaster.policies.expert.techniques import load_techniques
from kernelblaster.records import Candidate, Task, Verification

SOURCE = """import torch, torch.nn as nn, torch.nn.functional as F
SMALL = {{"batch": 1, "length": 13, "keys": 37, "depth": 34, "width": 50}}
batch, length, keys, depth, width = 3, 70, 130, {depth}, {width}
class Model(nn.Module):
    def forward(self, q, k, v, mask, bias):
        q = q.unflatten(-1, (2, -1)).transpose(1, 2)
        i = torch.arange(q.shape[2])[:, None]
        j = torch.arange(k.shape[2])
        one, two = k.repeat_interleave(2, 1), v.repeat_interleave(2, 1)
        def scores(x):
            return x @ one.transpose(-1, -2) * x.shape[-1] ** -0.5
        {body}
def get_inputs():
    q = torch.randn(batch, length, 2 * depth)
    k, v = (torch.randn(batch, 1, keys, d) for d in (depth, width))
    return [q, k, v, torch.rand(length, keys) > 0.3, torch.randn(batch, 1, length, keys)]
def get_init_inputs():
    return []
"""
MASKS = """near = (j <= i) & (j > i - 40)
        windowed = torch.softmax((scores(q) + bias).masked_fill(~near, float("-inf")), -1) @ two
        later = torch.softmax(torch.where((j + 3 >= i) & mask, scores(q + 1), float("-inf")), -1) @ two
        triangle = torch.triu(torch.full((q.shape[2], k.shape[2]), float("-inf")), 4)
        earlier = torch.softmax(scores(q * 2) + triangle, -1) @ two
        return windowed, later * 2 + 1, earlier.transpose(1, 2).flatten(2)"""
OPERATORS = """chosen = F.scaled_dot_product_attention(q, one, two, attn_mask=mask)
        biased = F.scaled_dot_product_attention(q * 2, one, two, attn_mask=bias)
        return chosen, biased, F.scaled_dot_product_attention(q + 1, one, two, is_causal=True)"""


def task_of(folder: Path, body: str, depth: int = 20, width: int = 40) -> Task:
    file = folder / "attention.py"
    file.write_text(SOURCE.format(body=body, depth=depth, width=width))
    return load_task(str(file))


def fused(task: Task) -> Plan:
    plan = initial_plan(simplify(capture(task)))
    while (following := next(load_techniques()["kernel_fusion"](plan), None)) is not None:
        plan = following
    return plan


def attentions(plan: Plan) -> list[OnlineAttention]:
    return [k.schedule for k in plan.kernels if isinstance(k.schedule, OnlineAttention)]


@cache
def core(name: str, dtype: str = "float32") -> tuple[Task, tuple[Plan, ...]]:
    task = load_task(f"core/level1/{name}", dtype)
    return task, tuple(load_techniques()["online_attention"](fused(task)))


def is_right(judge: DeviceJudge, task: Task, plan: Plan) -> bool:
    outcome = judge.check(task, Candidate(source=emit(plan))).outcome
    assert isinstance(outcome, Verification), outcome
    return True


@pytest.mark.parametrize(("body", "choice"), [(MASKS, 0), (OPERATORS, 3)])
def test_masks_of_every_kind_are_right(judge: DeviceJudge, tmp_path: Path, body: str, choice: int) -> None:
    """At sizes that fill no tile, and where queries are longer than shared memory was laid out for."""
    task = task_of(tmp_path, body)
    plan = list(load_techniques()["online_attention"](fused(task)))[choice]
    assert len(attentions(plan)) == 3
    assert is_right(judge, task, plan)


@pytest.mark.parametrize(("name", "dtype"), [("attention", "float32"), ("attention", "bfloat16")])
def test_each_precision_is_right_with_constant_sizes(judge: DeviceJudge, name: str, dtype: str) -> None:
    task, plans = core(name, dtype)
    assert is_right(judge, task, next(load_techniques()["index_simplification"](plans[0])))


def test_no_scores_are_in_memory() -> None:
    for name in ("attention", "attention_causal"):
        _, plans = core(name)
        scratch = [buffer for buffer in plans[0].buffers.values() if buffer.scratch]
        assert scratch and all(buffer.terms or buffer.name.endswith("_scale") for buffer in scratch)


def test_the_band_of_a_mask_is_known(tmp_path: Path) -> None:
    plan = next(load_techniques()["online_attention"](fused(task_of(tmp_path, MASKS))))
    kernels = [k for k in plan.kernels if isinstance(k.schedule, OnlineAttention)]
    found = [as_attention(kernel, plan) for kernel in kernels]
    bands = [band(one) for one in found if one is not None]
    of_a_tensor = Band()
    assert bands == [Band(number(-39), number(0)), of_a_tensor, Band(None, number(3))]


@pytest.mark.parametrize("name", ["a6000", "h200"])
@pytest.mark.parametrize("size", [16, 100, 256, 300])
def test_tiles_fit_the_shared_memory_of_the_gpu(tmp_path: Path, name: str, size: int) -> None:
    gpu = gpu_named(name)
    room = limits_of(gpu.architecture).shared_bytes - limits_of(gpu.architecture).reserved_shared_bytes
    plans = list(load_techniques(gpu)["online_attention"](fused(task_of(tmp_path, OPERATORS, size, size))))
    assert plans or (name, size) in {("a6000", 256), ("a6000", 300)}
    assert all(found.shared_bytes(2, 3) <= room for plan in plans for found in attentions(plan))


@pytest.mark.parametrize(
    ("body", "because"),
    [
        ("w = torch.softmax(scores(q), -1); return w, w @ two", "its left operand is not the result"),
        ("s = scores(q); return s, torch.softmax(s, -1) @ two", "its scores are needed elsewhere too"),
        ("return torch.relu(scores(q)) @ two", "its left operand is"),
    ],
)
def test_other_products_are_left_alone(tmp_path: Path, body: str, because: str) -> None:
    technique, plan = load_techniques()["online_attention"], fused(task_of(tmp_path, body))
    assert not list(technique(plan))
    assert any(refusal.startswith(because) for refusal in technique.why_not(plan).values())
