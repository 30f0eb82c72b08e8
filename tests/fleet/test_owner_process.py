"""An owner process that is killed: before it has begun with what it was asked, or after."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernelblaster.devices.specs import gpu_named
from kernelblaster.fleet.owner import OwnerLost
from kernelblaster.fleet.owner_process import ProcessOwner
from kernelblaster.fleet.requests import DescribeRequest, EvaluateRequest, JudgeChoice
from kernelblaster.judge.compile import compile_candidate
from kernelblaster.testing.judge_contract import RIGHT, task

EMULATED = JudgeChoice("emulated", "h200")


@pytest.fixture
def owner(compiler: str) -> Iterator[ProcessOwner]:
    started = ProcessOwner("emulated", "one", "")
    started.ask([DescribeRequest(EMULATED)]).result(120)
    yield started
    started.end()


def ticks(pid: int) -> int:
    """The processor time that a process has used, in ticks of the clock."""
    return sum(map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]))


def test_one_that_was_dead_before_had_not_begun(owner: ProcessOwner) -> None:
    os.kill(owner.pid, signal.SIGKILL)
    with pytest.raises(OwnerLost, match="SIGKILL") as lost:
        owner.ask([DescribeRequest(EMULATED)]).result(60)
    assert not lost.value.begun


def test_one_that_is_killed_at_work_had_begun(owner: ProcessOwner) -> None:
    binary = compile_candidate(task(), RIGHT, gpu_named("h200").architecture)
    before = ticks(owner.pid)
    asked = owner.ask([EvaluateRequest(EMULATED, task(), RIGHT)], binary)
    until = time.monotonic() + 60
    while ticks(owner.pid) < before + 5:
        assert time.monotonic() < until
        time.sleep(0.005)
    os.kill(owner.pid, signal.SIGKILL)
    with pytest.raises(OwnerLost, match="SIGKILL") as lost:
        asked.result(60)
    assert lost.value.begun
