"""Estimates: modelled times before a GPU is used, within a time limit."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from kernelblaster.devices.specs import gpu_specs
from kernelblaster.judge import estimate
from kernelblaster.judge.compile import Binary, compile_candidate
from kernelblaster.judge.estimate import Estimator
from kernelblaster.records import Candidate
from kernelblaster.testing.judge_contract import RIGHT, candidate, task

LONG = "[&] { float sum = 0; for (int k = 0; k < 300000; ++k) sum = sum * x[i] + 1; return sum; }()"


@pytest.fixture
def estimator(compiler: str) -> Iterator[Estimator]:
    with closing(Estimator(gpu_specs()["h200"])) as opened:
        yield opened


def compiled(one: Candidate) -> Binary:
    binary = compile_candidate(task(), one, "sm_90a")
    assert isinstance(binary, Binary), binary
    return binary


def test_what_takes_long_to_model_has_no_estimate(
    estimator: Estimator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(estimate, "LIMIT_S", 0.1)
    assert estimator.profile(task(), compiled(candidate(LONG))) is None
    assert estimator.microseconds(task(), compiled(candidate(LONG))) is None
    monkeypatch.undo()
    found = estimator.profile(task(), compiled(RIGHT))
    assert found is not None and found.tier == "modelled"
    assert estimator.microseconds(task(), compiled(RIGHT)) == found.kernels[0].duration_us
