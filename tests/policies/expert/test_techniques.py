"""Techniques rewrite plans where their preconditions hold, and nowhere else."""

from functools import cache

from kernelblaster.api import load_task
from kernelblaster.policies.expert.capture import capture
from kernelblaster.policies.expert.emit import emit
from kernelblaster.policies.expert.lower import initial_plan
from kernelblaster.policies.expert.plan import Plan
from kernelblaster.policies.expert.schedules.pointwise import FlatVectors
from kernelblaster.policies.expert.techniques import load_techniques


@cache
def plan_of(name: str) -> Plan:
    return initial_plan(capture(load_task(name)))


def exhausted(plan: Plan, name: str) -> Plan:
    while (following := next(load_techniques()[name](plan), None)) is not None:
        plan = following
    return plan


def test_a_pointwise_chain_becomes_one_kernel_without_scratch() -> None:
    first = plan_of("core/level1/axpy")
    assert [kernel.family for kernel in first.kernels] == ["pointwise", "pointwise"]
    fused = exhausted(first, "kernel_fusion")
    assert len(fused.kernels) == 1
    assert not any(buffer.scratch for buffer in fused.buffers.values())
    assert "out[i] = x[i] * (float)alpha + y[i];" in emit(fused)


def test_a_reduction_takes_in_what_comes_before_and_after() -> None:
    fused = exhausted(plan_of("core/level1/hinge_loss"), "kernel_fusion")
    assert [kernel.family for kernel in fused.kernels] == ["full_reduction"]


def test_a_product_takes_its_epilogue_but_not_a_costly_prologue() -> None:
    fused = exhausted(plan_of("core/level2/matmul_bias_softmax"), "kernel_fusion")
    assert [kernel.family for kernel in fused.kernels] == ["matrix_product", "row_reduction"]


def test_fusion_leaves_results_with_other_readers_alone() -> None:
    fused = exhausted(plan_of("core/level2/residual_layernorm_gelu"), "kernel_fusion")
    assert "out0" in fused.kernels[0].writes  # x + residual is an output, so it stays


def test_vector_width_follows_the_type_and_is_applied_once() -> None:
    plan = exhausted(plan_of("core/level1/relu"), "vectorized_memory_access")
    assert plan.kernels[0].schedule == FlatVectors(4)
    assert list(load_techniques()["vectorized_memory_access"](plan)) == []


def test_a_transposed_read_is_not_vectorized() -> None:
    plan = plan_of("core/level1/transpose_last")
    assert list(load_techniques()["vectorized_memory_access"](plan)) == []
