"""Fusion joins kernels across views, rows and outputs, and only where no work is repeated."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from kernelblaster.api import load_task
from kernelblaster.policies.expert.capture import capture
from kernelblaster.policies.expert.combines.arithmetic import MAX, SUM
from kernelblaster.policies.expert.emit import emit
from kernelblaster.policies.expert.fusion import into_products, prologue_is_free
from kernelblaster.policies.expert.lower import initial_plan
from kernelblaster.policies.expert.plan import Plan
from kernelblaster.policies.expert.simplify import simplify
from kernelblaster.policies.expert.techniques import load_techniques
from kernelblaster.policies.expert.techniques.kernel_fusion import MOST

SOURCE = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x, w):
        BODY

def get_inputs():
    return [torch.randn(96, 80), torch.randn(80, 112)]

def get_init_inputs():
    return []
"""


@cache
def plan_of(name: str) -> Plan:
    return initial_plan(simplify(capture(load_task(name))))


def fusions(plan: Plan) -> Iterator[Plan]:
    return load_techniques()["kernel_fusion"](plan)


def fused(plan: Plan) -> Plan:
    return next(fusions(plan))


def module(folder: Path, body: str) -> Plan:
    file = folder / "task.py"
    file.write_text(SOURCE.replace("BODY", body))
    return plan_of(str(file))


def families(plan: Plan) -> list[str]:
    return [kernel.family for kernel in plan.kernels]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("core/level1/attention", ["matrix_product", "row_reduction", "matrix_product"]),
        ("core/level1/instance_norm", ["row_reduction"]),
        ("core/level2/linear_groupnorm_hardtanh", ["matrix_product", "row_reduction"]),
        ("core/level2/rmsnorm_rotary", ["row_reduction"]),
        ("core/level2/residual_layernorm_gelu", ["row_reduction"]),
        ("core/level2/embedding_add_layernorm", ["row_reduction"]),
        ("core/level2/linear_cross_entropy", ["matrix_product", "row_reduction"]),
        ("core/level2/bmm_trace_tanh", ["row_reduction"]),
    ],
)
def test_as_few_kernels_as_can_be(name: str, expected: list[str]) -> None:
    assert families(fused(plan_of(name))) == expected


def test_an_epilogue_is_found_behind_views() -> None:
    last = fused(plan_of("core/level3/causal_attention_block")).kernels[-1]
    assert last.family == "matrix_product"
    assert last.writes == ("out",) and "x" in last.reads


def test_only_looked_up_elements_are_stored() -> None:
    plan = fused(plan_of("core/level1/cross_entropy"))
    scratch = [buffer for buffer in plan.buffers.values() if buffer.scratch]
    assert [len(buffer.shape) for buffer in scratch] == [1]


def test_an_output_is_stored_by_the_kernel_that_reads_it() -> None:
    kernel = fused(plan_of("core/level2/residual_layernorm_gelu")).kernels[0]
    assert kernel.writes == ("out0", "out1")
    assert "out0" not in kernel.reads


def test_neighbours_that_read_the_same_tensor_become_one(tmp_path: Path) -> None:
    assert families(fused(module(tmp_path, "return torch.sin(x), torch.cos(x)"))) == ["pointwise"]


def test_reductions_over_the_same_rows_become_one(tmp_path: Path) -> None:
    plan = fused(module(tmp_path, "return x.sum(dim=1), x.amax(dim=1), x.sum(dim=1) * 2"))
    assert families(plan) == ["row_reduction"]
    assert [stage.combine for stage in plan.kernels[0].stages] == [SUM, MAX]


def test_different_tensors_stay_apart(tmp_path: Path) -> None:
    body = "return torch.sin(x), torch.cos(w)"
    assert list(fusions(module(tmp_path, body))) == []


def test_a_prologue_of_one_factor_is_free_and_comes_last(tmp_path: Path) -> None:
    plan = module(tmp_path, "return torch.tanh(x) @ w")
    producer, product = plan.kernels
    assert prologue_is_free(producer, product)
    assert into_products(plan, producer) == fused(plan)


def test_a_prologue_of_both_factors_is_not_free(tmp_path: Path) -> None:
    plan = module(tmp_path, "y = torch.tanh(x)\n        return y @ y.t()")
    assert not prologue_is_free(*plan.kernels)
    assert list(fusions(plan)) == []


def test_a_normalization_is_written_before_a_product_reads_it() -> None:
    plan = fused(plan_of("core/level2/layernorm_linear_residual"))
    assert families(plan) == ["row_reduction", "matrix_product"]


def test_everything_comes_first_and_then_single_fusions() -> None:
    plan = plan_of("core/level3/transformer_encoder_block")
    found = list(fusions(plan))
    assert len(found) == MOST
    assert list(fusions(found[0])) == []
    assert all(len(found[0].kernels) < len(other.kernels) for other in found[1:])
    assert len({emit(other) for other in found}) == len(found)
