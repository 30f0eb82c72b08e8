"""IREE as a baseline: what it computes, on the host, and what is said where it is absent or cannot."""

import sys

import pytest
import torch

from kernelblaster.errors import KernelBlasterError
from kernelblaster.judge import iree_baseline
from kernelblaster.judge.iree_baseline import iree_run, why_no_iree
from kernelblaster.tasks.catalog import load_task
from kernelblaster.tasks.reference import open_reference

needs_iree = pytest.mark.skipif(why_no_iree() is not None, reason="IREE is not installed")


@needs_iree
def test_the_compiled_module_computes_the_same_with_the_parameters_of_each_call() -> None:
    task = load_task("core/level2/linear_subtract_multiply_relu")
    small = task.workload("small")
    reference = open_reference(task, small, torch.device("cpu"))
    run = iree_run(reference, "sm_90a")
    for seed in range(2):
        torch.manual_seed(seed)
        inputs = [torch.randn(small.shape(t)) for t in task.signature.input_tensors]
        reference.copy_in([torch.randn_like(p) for p in reference.parameters])
        for ours, theirs in zip(run(inputs), reference.run(inputs), strict=True):
            assert torch.allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def test_what_is_said_where_iree_is_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(iree_baseline, "find_spec", lambda name: None)
    task = load_task("core/level1/relu")
    reference = open_reference(task, task.workload("small"), torch.device("cpu"))
    with pytest.raises(
        KernelBlasterError, match=r"IREE is not installed; pip install 'kernelblaster\[iree\]'"
    ):
        iree_run(reference, "sm_90a")


@needs_iree
def test_what_is_said_where_iree_cannot_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    task = load_task("core/level1/relu")
    small = task.workload("small")
    reference = open_reference(task, small, torch.device("cpu"))
    monkeypatch.setattr(torch.export, "export", lambda *_: sys.exit)  # no program
    with pytest.raises(KernelBlasterError, match="IREE cannot compile it: "):
        iree_run(reference, "sm_90a")([torch.randn(small.shape(t)) for t in task.signature.input_tensors])
