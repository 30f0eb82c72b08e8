"""Plans give candidates that are right on the emulated device, as first written and rewritten."""

import pytest

from kernelblaster.api import load_task
from kernelblaster.judge.judge import DeviceJudge
from kernelblaster.policies.expert.capture import capture
from kernelblaster.policies.expert.emit import emit
from kernelblaster.policies.expert.lower import initial_plan
from kernelblaster.policies.expert.plan import Plan
from kernelblaster.policies.expert.techniques import load_techniques
from kernelblaster.records import Candidate, Verification

INITIAL = (
    "core/level1/axpy",
    "core/level1/max_with_index",
    "core/level1/group_norm",
    "core/level1/cross_entropy",
    "core/level1/matmul_both_transposed",
    "core/level1/sum_all",
    "core/level2/rmsnorm_rotary",
    "core/level2/linear_groupnorm_hardtanh",
)
REWRITTEN = (
    "core/level1/hinge_loss",
    "core/level1/broadcast_affine",
    "core/level1/cross_entropy",
    "core/level1/instance_norm",
    "core/level2/matmul_bias_softmax",
    "core/level2/residual_layernorm_gelu",
    "core/level2/rmsnorm_rotary",
)


def exhausted(plan: Plan, *techniques: str) -> Plan:
    """The plan after each technique was applied wherever it can be, one after the other."""
    for name in techniques:
        while (following := next(load_techniques()[name](plan), None)) is not None:
            plan = following
    return plan


@pytest.mark.parametrize("name", INITIAL)
def test_initial_candidates_are_right(judge: DeviceJudge, name: str) -> None:
    task = load_task(name)
    outcome = judge.check(task, Candidate(source=emit(initial_plan(capture(task))))).outcome
    assert isinstance(outcome, Verification), outcome


@pytest.mark.parametrize("name", REWRITTEN)
def test_rewritten_candidates_are_right(judge: DeviceJudge, name: str) -> None:
    task = load_task(name)
    first = initial_plan(capture(task))
    plan = exhausted(first, "kernel_fusion", "vectorized_memory_access")
    assert len(plan.kernels) < len(first.kernels)
    outcome = judge.check(task, Candidate(source=emit(plan))).outcome
    assert isinstance(outcome, Verification), outcome


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precisions_are_right(judge: DeviceJudge, dtype: str) -> None:
    task = load_task("core/level1/softmax", dtype)  # type: ignore[arg-type]
    outcome = judge.check(task, Candidate(source=emit(initial_plan(capture(task))))).outcome
    assert isinstance(outcome, Verification), outcome
