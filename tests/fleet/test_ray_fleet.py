"""A fleet of two simulated nodes, each with a PTX machine: the judges' contract, and losses."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from kernelblaster.errors import KernelBlasterError
from kernelblaster.fleet.dispatcher import Dispatcher
from kernelblaster.fleet.fleet_judge import FleetJudge
from kernelblaster.fleet.leases import PassingLeases
from kernelblaster.fleet.lines import DirectLine
from kernelblaster.fleet.requests import EvaluateRequest, JudgeChoice
from kernelblaster.settings import RAY_TOKEN
from kernelblaster.testing.judge_contract import RIGHT, WRONG, JudgeContract, task
from tests.fleet.conftest import TOKEN, SimulatedCluster

if find_spec("ray") is None:
    pytest.skip("Ray is not installed", allow_module_level=True)
EMULATED = JudgeChoice("emulated", "h200")


@pytest.fixture(scope="module")
def connected(cluster: SimulatedCluster, compiler: str) -> Iterator[SimulatedCluster]:
    from kernelblaster.fleet.ray_session import ray_session

    with ray_session(cluster.address, TOKEN):
        yield cluster


@pytest.fixture(scope="module")
def dispatcher(connected: SimulatedCluster) -> Iterator[Dispatcher]:
    from kernelblaster.fleet.ray_fleet import RayFleet

    with closing(Dispatcher(RayFleet("emulated"), PassingLeases())) as opened:
        until(lambda: len(opened.devices) == 2)
        yield opened


def until(holds: Callable[[], Any], seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


class TestFleetJudgeOnRay(JudgeContract):
    @pytest.fixture
    def judge(self, dispatcher: Dispatcher) -> Iterator[FleetJudge]:
        with closing(DirectLine(dispatcher)) as line:
            yield FleetJudge.open(line, EMULATED)


def test_people_see_what_there_is(dispatcher: Dispatcher) -> None:
    from kernelblaster.fleet.ray_fleet import ray_status

    nodes = ray_status()
    assert [(node.alive, node.cores, node.machines, node.gpus) for node in nodes] == [(True, 1, 1, ())] * 2
    devices = [device for node in nodes for device in node.devices]
    assert len(devices) == 2 and all(str(os.getpid()) in device.user for device in devices)


def test_what_needs_no_gpu_sees_none(connected: SimulatedCluster) -> None:
    """Whatever the node sees: Ray itself hides nothing from those who ask for none."""
    import ray

    from kernelblaster.fleet.ray_owner import NO_GPUS

    def visible() -> str | None:
        return os.environ.get("CUDA_VISIBLE_DEVICES")

    assert ray.get(ray.remote(visible).options(runtime_env=NO_GPUS, num_cpus=0).remote()) == ""


def test_an_actor_that_is_killed_is_replaced_and_its_work_done_again(dispatcher: Dispatcher) -> None:
    fleet: Any = dispatcher._fleet
    pids = {owner.name: owner.pid for owner in fleet._owners.values()}
    with closing(DirectLine(dispatcher)) as line:
        numbers = [line.send(EvaluateRequest(EMULATED, task(), one)) for one in (RIGHT, WRONG)]
        until(lambda: any(desk.at_work for desk in dispatcher._desks))
        busy = next(desk for desk in dispatcher._desks if desk.at_work)
        os.kill(pids[busy.owner.name], signal.SIGKILL)
        kinds = [line.receive(number).outcome.kind for number in numbers]
    assert kinds[0] in ("Accepted", "Inconclusive", "Slower") and kinds[1] == "Incorrect"
    until(lambda: len(dispatcher.devices) == 2)
    assert busy.owner not in fleet._owners.values()


def test_an_idle_actor_that_is_killed_is_blamed_on_nobody(dispatcher: Dispatcher) -> None:
    """Its loss is noticed when it is asked next, by work that has no part in it."""
    until(lambda: len(dispatcher.devices) == 2)
    fleet: Any = dispatcher._fleet
    with closing(DirectLine(dispatcher)) as line:
        for _ in range(2):
            idle = set(fleet._owners.values())
            for owner in idle:
                os.kill(owner.pid, signal.SIGKILL)
            assert (
                line.receive(line.send(EvaluateRequest(EMULATED, task(), WRONG))).outcome.kind == "Incorrect"
            )
            until(lambda: len(dispatcher.devices) == 2)
    assert not dispatcher._leases._lost  # type: ignore[attr-defined]


def test_a_lost_node_is_done_without_and_a_new_one_is_used(
    connected: SimulatedCluster, dispatcher: Dispatcher
) -> None:
    """Last in this file: the cluster has another second node then."""
    lost = connected.cluster.list_all_nodes()[-1]
    with closing(DirectLine(dispatcher)) as line:
        numbers = [line.send(EvaluateRequest(EMULATED, task(), WRONG)) for _ in range(4)]
        connected.cluster.remove_node(lost, allow_graceful=False)
        assert [line.receive(number).outcome.kind for number in numbers] == ["Incorrect"] * 4
    until(lambda: len(dispatcher.devices) == 1)
    connected.add_node()
    until(lambda: len(dispatcher.devices) == 2)


def test_a_wrong_token_is_refused_at_once(cluster: SimulatedCluster) -> None:
    from kernelblaster.fleet.ray_session import check_cluster

    start = time.monotonic()
    for token in ("0" * 64, None):
        with pytest.raises(KernelBlasterError, match="the fleet refuses"):
            check_cluster(cluster.address, token)
    with pytest.raises(KernelBlasterError, match="no fleet answers there"):
        check_cluster("127.0.0.1:1", TOKEN)
    assert time.monotonic() - start < 20


def test_a_node_with_a_wrong_token_does_not_join(
    cluster: SimulatedCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refused in a sentence, before anything is started."""
    from kernelblaster.fleet.node import NodePlan, start_node

    monkeypatch.setenv("KERNELBLASTER_DATA", str(tmp_path))
    monkeypatch.setenv(RAY_TOKEN, TOKEN)  # put back afterwards, as it was
    wrong = tmp_path / "token"
    wrong.write_text("0" * 64)
    wrong.chmod(0o600)
    with pytest.raises(KernelBlasterError, match="the fleet refuses this token"):
        start_node(NodePlan(join=cluster.address, token=wrong))
    assert not (tmp_path / "fleet").exists()
