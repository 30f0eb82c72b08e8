"""Judges whose device is in a process of its own: asked directly, and over a pipe; and one that is killed."""

import os
import signal
from collections.abc import Iterator
from contextlib import closing

import pytest

from kernelblaster.devices.specs import gpu_specs
from kernelblaster.fleet.dispatcher import Dispatcher
from kernelblaster.fleet.fleet_judge import FleetJudge
from kernelblaster.fleet.leases import PassingLeases
from kernelblaster.fleet.lines import DirectLine, LineServer
from kernelblaster.fleet.local_fleet import LocalFleet
from kernelblaster.fleet.requests import DeviceFacts, EvaluateRequest, JudgeChoice, Request
from kernelblaster.records.outcome import CORRECT
from kernelblaster.testing.judge_contract import BROKEN, RIGHT, WRONG, JudgeContract, task

EMULATED = JudgeChoice("emulated", "h200")


@pytest.fixture(scope="module")
def dispatcher(compiler: str) -> Iterator[Dispatcher]:
    with closing(Dispatcher(LocalFleet(machines=1), PassingLeases())) as opened:
        yield opened


class TestFleetJudge(JudgeContract):
    @pytest.fixture
    def judge(self, dispatcher: Dispatcher) -> Iterator[FleetJudge]:
        with closing(DirectLine(dispatcher)) as line:
            yield FleetJudge.open(line, EMULATED)


class TestFleetJudgeOverAPipe(JudgeContract):
    @pytest.fixture
    def judge(self, dispatcher: Dispatcher) -> Iterator[FleetJudge]:
        with LineServer(dispatcher) as server, closing(server.connect()) as line:
            yield FleetJudge.open(line, EMULATED)


def test_a_gpu_does_not_wait_for_estimates(compiler: str) -> None:
    class Unasked:
        def send(self, request: Request) -> int:
            raise AssertionError(request)

        def receive(self, number: int) -> object:
            raise AssertionError(number)

        def close(self) -> None:
            pass

    gpu = DeviceFacts("NVIDIA H200", gpu_specs()["h200"], modelled=False)
    with closing(FleetJudge(Unasked(), JudgeChoice("cuda"), gpu)) as judge:
        right, broken = judge.estimate(task(), [RIGHT, BROKEN])
    assert right is not None and right > 0 and broken is None


def test_an_owner_that_is_killed_is_replaced(dispatcher: Dispatcher) -> None:
    """Last in this file: its successor starts from nothing."""
    fleet = dispatcher._fleet
    assert isinstance(fleet, LocalFleet)
    [owner] = fleet._owners.values()
    with closing(DirectLine(dispatcher)) as line:
        judge = FleetJudge.open(line, EMULATED)
        numbers = [line.send(EvaluateRequest(EMULATED, task(), one)) for one in (RIGHT, WRONG)]
        os.kill(owner.pid, signal.SIGKILL)
        evaluations = [line.receive(number) for number in numbers]
        assert isinstance(evaluations[0].outcome, CORRECT) and evaluations[1].outcome.kind == "Incorrect"
        assert judge.profile(task(), [], depth="quick") == []
    assert [one.pid for one in fleet._owners.values()] != [owner.pid]
