"""Whether mutants are wrong is found without the judge: on many admissible inputs, on the PTX machine."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from kernelblaster.devices.emulated import EmulatedDevice
from kernelblaster.judge.compile import Binary, compile_candidate
from kernelblaster.records import Candidate, Task, Workload
from kernelblaster.testing.admissible import ARRANGEMENTS, MOST, Input, inputs_of, scalars_of
from kernelblaster.testing.corpus import ROOT, Corpus
from kernelblaster.testing.mutant_truth import MutantTruth, compare

NAIVE = ROOT / "tests" / "exploits" / "honest" / "relu_naive.cu"
MISTAKES = [
    ("i < n)", "i <= n)", "out-of-bounds"),
    ("x[i] < 0 ? 0 : x[i]", "x[i]", "an element"),
    ("if (i < n)", "const_cast<float*>(x)[0] = 1; if (i < n)", "x"),
]


@pytest.fixture(scope="module")
def task() -> Task:
    return Corpus().read(NAIVE)[0]


@pytest.fixture(scope="module")
def device(compiler: str) -> Iterator[EmulatedDevice]:
    opened = EmulatedDevice()
    yield opened
    opened.close()


def built(task: Task, device: EmulatedDevice, source: str) -> Path:
    binary = compile_candidate(task, Candidate(source=source), device.spec.architecture)
    assert isinstance(binary, Binary), binary
    return binary.path


def test_inputs_are_many_small_and_reach_beyond_the_primary_size(task: Task) -> None:
    inputs = inputs_of(task, 1)
    assert len(inputs) >= 30 and len({one.title for one in inputs}) > 25
    assert all(sum(t.numel() for t in one.tensors) <= MOST for one in inputs)
    for name, extent in task.primary.sizes.items():
        assert any(one.workload.sizes[name] > extent for one in inputs)
    assert {word for word in ARRANGEMENTS if any(word in one.title for one in inputs)} == set(ARRANGEMENTS)
    again = inputs_of(task, 1)
    assert all(torch.equal(a.tensors[0], b.tensors[0]) for a, b in zip(inputs, again, strict=True))


def test_scalars_have_the_values_of_the_file() -> None:
    assert scalars_of(Corpus().task("tests/exploits/tasks/axpby.py")) == {"alpha": 0.75, "beta": 1.0}


def test_mutants_are_told_from_the_original(task: Task, device: EmulatedDevice) -> None:
    source = NAIVE.read_text()
    truth = MutantTruth(device, task, built(task, device, source), 1)
    assert len(truth.known) >= 20
    other = source.replace("x[i] < 0 ? 0 : x[i]", "fmaxf(x[i], 0)")
    assert truth.difference(built(task, device, other)) is None
    for old, new, sign in MISTAKES:
        assert old in source
        found = truth.difference(built(task, device, source.replace(old, new)))
        assert found is not None and sign in found


def made(values: torch.Tensor, noise: float) -> Input:
    size = {"n": values.numel()}
    spread = torch.full_like(values, noise)
    return Input("", Workload(name="small", sizes=size), (), (), (values,), (spread,))


def test_noise_is_not_a_difference_and_one_wrong_element_is() -> None:
    truth = torch.linspace(1, 2, 100, dtype=torch.float64)
    right = truth.float()
    one = made(truth, 1e-7)
    assert compare(one, (right,), (right * (1 + 2e-7),)) is None
    assert "times the original" in (compare(one, (right,), (right * (1 + 3e-6),)) or "")
    spoiled = right.clone()
    spoiled[7] += 1e-4
    assert "an element" in (compare(one, (right,), (spoiled,)) or "")
    spoiled[7] = torch.nan
    assert compare(one, (right,), (spoiled,)) == "not finite"
    assert "whole numbers" in (compare(one, (torch.tensor([1, 2]),), (torch.tensor([1, 3]),)) or "")
