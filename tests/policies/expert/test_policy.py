"""The expert policy as a strategy sees it."""

from pathlib import Path

import pytest

from kernelblaster.api import load_task
from kernelblaster.errors import BadTask
from kernelblaster.policies.expert.policy import ExpertPolicy
from kernelblaster.policies.policy import Attempt, Target
from kernelblaster.records import CompileFailed, Evaluation, KernelProfile, Metric, Profile, State

TASK = """
import torch, torch.nn as nn
rows, cols = 512, 256
class Model(nn.Module):
    def forward(self, x, w):
        return (torch.relu(torch.relu(x)) @ w).sum(dim=1)
def get_inputs():
    return [torch.randn(rows, cols), torch.randn(cols, 384)]
def get_init_inputs():
    return []
"""


@pytest.fixture(scope="module")
def policy() -> ExpertPolicy:
    return ExpertPolicy()


@pytest.fixture(scope="module")
def first(policy: ExpertPolicy, tmp_path_factory: pytest.TempPathFactory) -> Attempt:
    file: Path = tmp_path_factory.mktemp("tasks") / "task.py"
    file.write_text(TASK)
    return policy.initial(load_task(str(file)))


def target(kernel: str) -> Target:
    return Target(kernel, 1.0, State(name="s", primary="latency"))


def profiled(attempt: Attempt, times: dict[str, float]) -> Profile:
    kernels = tuple(
        KernelProfile(
            name=f"_Z{len(kernel.name)}{kernel.name}PfPKfll",
            grid=(999, 1, 1),
            block=(256, 1, 1),
            metrics=(
                Metric(name="Duration", unit="us", value=times.get(kernel.name, 30.0), tier="modelled"),
            ),
        )
        for kernel in attempt.form.kernels
    )
    return Profile(device="NVIDIA H200", tier="modelled", workload="primary", kernels=kernels)


def test_the_slowest_kernel_is_the_first_target_and_has_its_family(
    policy: ExpertPolicy, first: Attempt
) -> None:
    product = next(k for k in first.form.kernels if k.family == "matrix_product")
    found = policy.targets(first, profiled(first, {product.name: 900.0}), 1000)
    assert (found[0].kernel, found[0].family) == (product.name, "matrix_product")
    assert {t.kernel for t in found} == {k.name for k in first.form.kernels}


def test_moves_change_the_target_and_every_proposal_has_one(policy: ExpertPolicy, first: Attempt) -> None:
    for kernel in first.form.kernels:
        for technique in policy.proposals(first, target(kernel.name)):
            move = next(policy.moves(first, technique, target(kernel.name)))
            assert kernel.name in move.changed
            assert move.candidate.parent == first.candidate.digest
            assert move.candidate.source != first.candidate.source


def test_the_next_move_follows_a_failed_one(policy: ExpertPolicy, first: Attempt) -> None:
    kernel = target(first.form.kernels[0].name)
    moves = list(policy.moves(first, "block_shape", kernel))
    outcome = CompileFailed(reason="", log="")
    failed = Evaluation(task="t", candidate="c", device="d", outcome=outcome, seconds=0)
    again = policy.retry(first, "block_shape", moves[0], failed)
    assert again is not None and again.candidate == moves[1].candidate
    assert policy.retry(first, "block_shape", moves[-1], failed) is None


def test_algebraic_simplification_is_a_technique_of_the_first_plan_only(
    policy: ExpertPolicy, first: Attempt
) -> None:
    name = "algebraic_simplification"
    product = next(k for k in first.form.kernels if k.family == "matrix_product")
    (simpler,) = policy.moves(first, name, target(product.name))
    families = [k.family for k in simpler.form.kernels]
    assert len(simpler.form.kernels) <= len(first.form.kernels)
    assert families != [k.family for k in first.form.kernels]
    assert name not in policy.proposals(simpler, target(simpler.form.kernels[0].name))
    changed = next(policy.moves(first, "block_shape", target(product.name)))
    assert changed.form.graph is None
    assert name not in policy.proposals(changed, target(product.name))


def test_a_recipe_is_applied_in_turn_and_what_does_not_apply_is_passed_over(
    policy: ExpertPolicy, first: Attempt
) -> None:
    kernel = first.form.kernels[0].name
    recipe = "warp_shuffle_reduction + double_buffering + kernel_fusion"
    whole, shorter, *_ = policy.moves(first, recipe, target(kernel))
    assert whole.applied == ("algebraic_simplification", "kernel_fusion", "warp_shuffle_reduction")
    assert shorter.applied == ("algebraic_simplification", "kernel_fusion")
    step = first
    for technique in whole.applied:
        names = [k.name for k in step.form.kernels]
        step = next(m for name in names for m in policy.moves(step, technique, target(name)))
    assert step.candidate.code == whole.candidate.code


def test_a_recipe_of_which_nothing_applies_gives_nothing(policy: ExpertPolicy, first: Attempt) -> None:
    kernel = first.form.kernels[0].name
    assert list(policy.moves(first, "rows_in_registers + transposed_staging", target(kernel))) == []


def test_a_random_module_is_called_random(policy: ExpertPolicy, tmp_path: Path) -> None:
    forward = "return torch.relu(torch.nn.functional.dropout(x @ w))"
    (tmp_path / "task.py").write_text(
        TASK.replace("return (torch.relu(torch.relu(x)) @ w).sum(dim=1)", forward)
    )
    task = load_task(str(tmp_path / "task.py"))
    with pytest.raises(
        BadTask, match=r"unfit to be scored: random: .* \(dropout\? call eval\(\) on the module"
    ):
        policy.initial(task)
