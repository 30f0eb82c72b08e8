"""What the judge's process answers, with a stand-in for the judge."""

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kernelblaster.devices.specs import gpu_named
from kernelblaster.knowledge.knowledge_base import KnowledgeBase
from kernelblaster.knowledge.matching import MATCH, distance
from kernelblaster.mcp.judge_work import JudgeDesk
from kernelblaster.mcp.knowledge_tools import _explain
from kernelblaster.mcp.setup import AgentSetup
from kernelblaster.policies.expert.states import extract_states
from kernelblaster.records import Accepted, Candidate, Evaluation, Floor, KernelProfile, Profile, Task, Timing
from kernelblaster.records.evaluation import Compilation
from kernelblaster.records.outcome import Speedup
from kernelblaster.records.profile import Metric
from kernelblaster.store.files import Files
from kernelblaster.tasks.catalog import find

COMPILED = Compilation(compiler="nvcc", architecture="sm_90a", seconds=0, cached=False, resources=())
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
    """Judges nothing: gives one profile for whatever it is asked, and says that a candidate is the faster,
    the larger its constant BLOCK is (without it, 2 times as fast as the baseline)."""

    device = SimpleNamespace(modelled=True, name="NVIDIA H200", spec=gpu_named("h200"))

    def __init__(self, profile: Profile) -> None:
        self.given = profile

    def profile(self, task: object, candidates: list[object], **_: object) -> list[Profile]:
        return [self.given for _ in candidates]

    def prepare(self, task: object) -> tuple[object, Any]:
        return None, Floor(bytes=1, certain_bytes=1, operations=0)

    def confirmed(self, task: object, candidate: Candidate, evaluation: Evaluation) -> Evaluation:
        return evaluation

    def evaluate_many(self, jobs: list[tuple[Task, Candidate]]) -> Iterator[Evaluation]:
        for task, candidate in jobs:
            factor = dict(candidate.defines).get("BLOCK", 256) / 128
            speedup = Speedup(estimate=factor, low=factor, high=factor, confidence=None)
            timing = Timing(
                baseline="eager", baseline_us=100, candidate_us=100 / factor, speedup=speedup, samples=1,
                candidate_wall_us=None, candidate_activity_us=None, floor_us=1, modelled=True, seconds=0,
            )  # fmt: skip
            yield Evaluation(
                task=task.name,
                candidate=candidate.digest,
                device="NVIDIA H200",
                defines=candidate.defines,
                outcome=Accepted(speedup=speedup),
                compilation=COMPILED,
                timing=timing,
                seconds=0,
            )


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


@pytest.fixture
def judging(desk: JudgeDesk) -> Iterator[JudgeDesk]:
    desk._judge = StandIn(profile_of(dram=85.0))  # type: ignore[assignment]
    yield desk
    while desk._asking:
        desk._close_oldest()
    desk._judge = None


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


def test_a_candidate_has_one_name_from_its_verdict_to_its_export(
    judging: JudgeDesk, relu: dict[str, Any], tmp_path: Path
) -> None:
    found = judging.evaluate(relu, SOURCE, None, None)
    exported = judging.export(found["run"], "cu")
    assert (found["source"], found["code"]) == (exported["source"], exported["code"])
    assert f"code {found['code']}, source {found['source']}\n" in exported["text"]
    assert judging.propose(relu, found["run"])["best_source"] == found["source"]
    folder = tmp_path / "runs" / found["run"]
    assert Files(folder / "files").get(found["source"]) == SOURCE
    assert json.loads((folder / "trajectory.json").read_text())["best"] == found["code"]


TUNABLE = """// kernelblaster-tune: BLOCK = 128, 512, 256
#ifndef BLOCK
#define BLOCK 256
#endif
"""


def test_a_sweep_judges_all_constants_and_keeps_the_best(judging: JudgeDesk, relu: dict[str, Any]) -> None:
    first = judging.evaluate(relu, SOURCE, None, None)
    swept = judging.evaluate(relu, TUNABLE + SOURCE, first["run"], "block_shape", sweep=True)
    assert [(one["constants"]["BLOCK"], one["speedup"]) for one in swept["sweep"]] == [
        (128, 1),
        (512, 4),
        (256, 2),
    ]
    assert swept["constants"] == {"BLOCK": 512} and swept["speedup"] == 4 and swept["improved"]
    assert swept["best_so_far"] == {"speedup": 4, "is_this": True}
    again = judging.evaluate(relu, TUNABLE + SOURCE, first["run"], None, sweep=True)
    assert again["code"] == swept["code"] and not again["improved"]
    advice = judging.propose(relu, first["run"])
    assert advice["constants"] == {"BLOCK": 512} and advice["best_source"] == swept["source"]
    assert "block_shape" in advice["left_out"], "what was learned is a step of its own"
    exported = judging.export(first["run"], "cu")
    assert exported["code"] == swept["code"] and "#define BLOCK 512" in exported["text"]


def test_a_sweep_without_constants_says_so(judging: JudgeDesk, relu: dict[str, Any]) -> None:
    found = judging.evaluate(relu, SOURCE, None, None, sweep=True)
    assert found["correct"] and "declares no constants" in found["sweep"]
    assert "constants" not in found and "sweep" not in judging.evaluate(relu, SOURCE, found["run"], None)


def test_a_floor_of_bytes_alone_says_so(judging: JudgeDesk, relu: dict[str, Any]) -> None:
    for shown in (
        judging.show(relu)["floor"]["counts"],
        judging.evaluate(relu, SOURCE, None, None)["floor_counts"],
    ):
        assert shown.startswith("bytes alone")
    [(name, path)] = [one for one in find("core") if one[0] == "core/level1/matmul_square"]
    floor = judging.show({"name": name, "path": str(path), "shipped": True})["floor"]
    assert floor["operations"] and floor["counts"].startswith("bytes, and the operations")


def test_a_technique_of_an_agent_is_described_wherever_it_is_offered(
    judging: JudgeDesk, relu: dict[str, Any]
) -> None:
    first = judging.evaluate(relu, SOURCE, None, None)["run"]
    bare = judging.evaluate(relu, "// 1\n" + SOURCE, first, "nameless idea")
    told = "Merge runs in registers,\nthen in shared memory."
    said = judging.evaluate(relu, TUNABLE + SOURCE, first, "register merge", told, sweep=True)
    assert "nobody has said" in bare["undescribed"] and "undescribed" not in said
    other = judging.evaluate(relu, "// another run\n" + SOURCE, None, None)["run"]
    assert judging.propose(relu, other)["left_out"]["nameless idea"] == "nobody has said what it is"
    judging._judge.given = profile_of(dram=20.0, occupancy=10.0)  # type: ignore[union-attr]
    elsewhere = judging.evaluate(relu, "// in another state\n" + SOURCE, None, None)["run"]
    offered = {one["technique"]: one for one in judging.propose(relu, elsewhere)["techniques"]}
    assert offered["register merge"]["description"] == "Merge runs in registers, then in shared memory."
    again = judging.evaluate(relu, "// 2\n" + SOURCE, other, "nameless idea", "Has a meaning now.")
    assert "undescribed" not in again


def test_what_was_reached_of_a_bound_is_said(judging: JudgeDesk, relu: dict[str, Any]) -> None:
    """A state is named after device memory from 60 % of its peak on; kernels reach 90 %."""
    told: dict[float, str] = {}
    for percent in (65.0, 86.0):
        judging._judge.given = profile_of(dram=percent, l2=40.0, occupancy=35.0)  # type: ignore[union-attr]
        [kernel] = judging.profile(relu, SOURCE)["kernels"]
        assert kernel["state"].startswith("memory-bandwidth") and "as it can" not in kernel["meaning"]
        told[percent] = kernel["reached"]
    assert told[86.0] == "Busy: device memory 86%, L2 40%, occupancy 35%."
    assert "in part only" in told[65.0] and "in 72% of the time" in told[65.0] and "other 28%" in told[65.0]
    run = judging.evaluate(relu, SOURCE, None, None)["run"]
    assert judging.propose(relu, run)["reached"] == told[86.0]
    judging._judge.given = profile_of()  # type: ignore[union-attr]
    assert judging.profile(relu, SOURCE)["kernels"][0]["reached"] == ""
