"""The owner of a real GPU in a process of its own, by the judges' contract suite; Ray is not needed."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from kernelblaster.devices.cuda import why_no_gpu
from kernelblaster.fleet.dispatcher import Dispatcher
from kernelblaster.fleet.fleet_judge import FleetJudge
from kernelblaster.fleet.leases import PassingLeases
from kernelblaster.fleet.lines import DirectLine
from kernelblaster.fleet.local_fleet import LocalFleet
from kernelblaster.fleet.requests import JudgeChoice
from kernelblaster.testing.judge_contract import JudgeContract

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def dispatcher() -> Iterator[Dispatcher]:
    reason = why_no_gpu()
    if reason:
        pytest.skip(reason)
    with closing(Dispatcher(LocalFleet(["0"]), PassingLeases())) as opened:
        yield opened


class TestOwnerOfAGpu(JudgeContract):
    @pytest.fixture
    def judge(self, dispatcher: Dispatcher) -> Iterator[FleetJudge]:
        with closing(DirectLine(dispatcher)) as line:
            judge = FleetJudge.open(line, JudgeChoice("cuda"))
            assert not judge.device.modelled
            yield judge
