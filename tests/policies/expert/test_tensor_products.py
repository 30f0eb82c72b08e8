"""Products by tensor cores: right at odd sizes, in all layouts and precisions; only where they can pay."""

from functools import cache

import pytest

from kernelblaster.api import load_task
from kernelblaster.judge.compile import Binary, compile_candidate
from kernelblaster.judge.judge import DeviceJudge
from kernelblaster.policies.expert.capture import capture
from kernelblaster.policies.expert.emit import emit
from kernelblaster.policies.expert.lower import initial_plan
from kernelblaster.policies.expert.plan import Plan
from kernelblaster.policies.expert.techniques import load_techniques
from kernelblaster.records import Candidate, Verification

SPLIT, HALF, GROUPS = "split_operand_tensor_cores", "tensor_core_utilization", "warpgroup_matrix_multiply"


@cache
def plan_of(name: str, dtype: str = "float32") -> Plan:
    return initial_plan(capture(load_task(name, dtype)))


def moves(plan: Plan, technique: str) -> list[Plan]:
    return list(load_techniques()[technique](plan))


@pytest.mark.parametrize(
    ("name", "dtype", "technique", "move"),
    [
        ("core/level1/matmul_square", "float32", SPLIT, 0),
        ("core/level1/matmul_batched", "float32", SPLIT, 1),
        ("core/level1/matmul_both_transposed", "float32", SPLIT, 2),
        ("core/level2/linear_swiglu", "float32", SPLIT, 3),
        ("core/level1/matmul_a_transposed", "float16", HALF, 0),
        ("core/level2/bmm_add_tanh", "bfloat16", HALF, 0),
    ],
)
def test_products_are_right(judge: DeviceJudge, name: str, dtype: str, technique: str, move: int) -> None:
    task = load_task(name, dtype)
    source = emit(moves(plan_of(name, dtype), technique)[move])
    outcome = judge.check(task, Candidate(source=source)).outcome
    assert isinstance(outcome, Verification), outcome


def test_each_precision_has_its_technique() -> None:
    single, half = plan_of("core/level1/matmul_square"), plan_of("core/level1/matmul_square", "float16")
    assert moves(single, SPLIT) and not moves(single, HALF)
    assert moves(half, HALF) and not moves(half, SPLIT)
    double = plan_of("core/level1/matmul_square", "float64")
    assert not moves(double, SPLIT) and not moves(double, HALF)


def test_a_product_with_a_vector_is_left_alone() -> None:
    assert not moves(plan_of("core/level1/matmul_vector"), SPLIT)


def test_an_operand_of_two_products_is_packed_once() -> None:
    first = plan_of("core/level2/linear_swiglu")
    products = [kernel for kernel in first.kernels if kernel.family == "matrix_product"]
    packs = [kernel for kernel in moves(first, SPLIT)[0].kernels if kernel.family == "pack"]
    assert (len(products), len(packs)) == (2, 3)


def test_groups_of_warps_follow_tensor_cores_and_keep_to_their_registers(compiler: str) -> None:
    first = plan_of("core/level1/matmul_square")
    assert not moves(first, GROUPS)
    plan = moves(moves(first, SPLIT)[0], GROUPS)[0]
    task = load_task("core/level1/matmul_square")
    built = compile_candidate(task, Candidate(source=emit(plan)), "sm_90a")
    assert isinstance(built, Binary), built
    assert not any(kernel.spill_store_bytes for kernel in built.compilation.resources)
