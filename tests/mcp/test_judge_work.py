"""What the judge's process answers, with a stand-in for the judge."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kernelblaster.knowledge.knowledge_base import KnowledgeBase
from kernelblaster.knowledge.matching import MATCH, distance
from kernelblaster.mcp.judge_work import JudgeDesk
from kernelblaster.mcp.knowledge_tools import _explain
from kernelblaster.mcp.setup import AgentSetup
from kernelblaster.policies.expert.states import extract_states
from kernelblaster.records import KernelProfile, Profile
from kernelblaster.records.profile import Metric
from kernelblaster.tasks.catalog import find

SOURCE = 'extern "C" void launch_gpu_implementation();\n'


def metric(name: str, unit: str, value: float) -> Metric:
    return Metric(name=name, unit=unit, value=value, tier="ncu")


def profile_of(**percent: float) -> Profile:
    """A profile of one kernel of 100 us with these utilizations of its parts, in percent."""
    names = {"dram": "DRAM Throughput", "l2": "L2 Cache Throughput", "occupancy": "Achieved Occupancy"}
    metrics = (metric("Duration", "us", 100.0), *(metric(names[n], "%", v) for n, v in percent.items()))
    kernel = KernelProfile(name="k", grid=(4096, 1, 1), block=(256, 1, 1), metrics=metrics)
    return Profile(device="NVIDIA H200", tier="ncu", workload="primary", kernels=(kernel,))


class StandIn:
    """Judges nothing: gives one profile for whatever it is asked."""

    device = SimpleNamespace(modelled=True)

    def __init__(self, profile: Profile) -> None:
        self.given = profile

    def profile(self, task: object, candidates: list[object]) -> list[Profile]:
        return [self.given]

    def prepare(self, task: object) -> tuple[object, Any]:
        return None, SimpleNamespace(bytes=1)


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[JudgeDesk]:
    setup = AgentSetup((), tmp_path / "runs", tmp_path, str(tmp_path / "kb.db"), device="emulated")
    made = JudgeDesk(setup, SimpleNamespace(tell=lambda message: None))  # type: ignore[arg-type]
    yield made
    made.close()


@pytest.fixture
def relu() -> dict[str, Any]:
    [(name, path)] = [one for one in find("core") if one[0] == "core/level1/relu"]
    return {"name": name, "path": str(path), "shipped": True}


def profiled(desk: JudgeDesk, task: dict[str, Any], profile: Profile) -> dict[str, Any]:
    desk._judge = StandIn(profile)  # type: ignore[assignment]
    answer = desk.profile(task, SOURCE)
    desk._judge = None
    kernel: dict[str, Any] = answer["kernels"][0]
    return kernel


def test_states_of_profiles_have_the_names_of_the_knowledge_base(
    desk: JudgeDesk, relu: dict[str, Any], tmp_path: Path
) -> None:
    """A state that is near a known one has that one's name, any other is added: explain_state and write_note
    know both."""
    near, far = profile_of(dram=85.0, l2=80.0, occupancy=80.0), profile_of(dram=75.0, l2=90.0, occupancy=10.0)
    raw = [extract_states(one, 1)[0].state for one in (near, far)]
    told = [profiled(desk, relu, one) for one in (near, far)]
    assert told[0]["state"] != raw[0].name, "the profile's own name is another one"
    assert told[0]["meaning"] == raw[0].description
    with KnowledgeBase(tmp_path / "kb.db") as knowledge:
        for kernel, state in zip(told, raw, strict=True):
            assert _explain(knowledge.content(), kernel["state"], None, ())["state"] == kernel["state"]
            knowledge.note(kernel["state"], "to remember")
            assert kernel["state"] == knowledge.match(state), "as propose does"
            assert distance(knowledge.content().states[kernel["state"]].state, state) <= MATCH
