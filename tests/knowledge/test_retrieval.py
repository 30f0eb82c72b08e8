"""What is known around a state reaches a kernel in it: siblings, the bare bottleneck, the same technique
elsewhere, weighted by distance; and exemplars of the same family."""

from math import log

import pytest

from kernelblaster.knowledge import KnowledgeBase, Provenance
from kernelblaster.knowledge.events import Exemplified, Retired
from kernelblaster.knowledge.exemplar import KEPT, Exemplar
from kernelblaster.knowledge.retrieval import Neighbourhood
from kernelblaster.records import State
from kernelblaster.testing.knowledge_contract import technique

HERE = Provenance(run="r", architecture="sm_90a", family="scan")
BARE = State(name="latency", primary="latency")
SIBLING = State(
    name="latency/barriers+small-blocks", primary="latency", secondary=("barriers", "small-blocks")
)
ELSEWHERE = State(name="bank-conflicts", primary="bank-conflicts")
KERNEL = State(
    name="latency/low-occupancy+small-blocks+tail-effect",
    primary="latency",
    secondary=("low-occupancy", "small-blocks", "tail-effect"),
    metrics={"dram": 0.1},
)


@pytest.fixture
def kb() -> KnowledgeBase:
    kb = KnowledgeBase("sqlite://")
    for state in (BARE, SIBLING, ELSEWHERE):
        kb.add_state(state)
    kb.add_optimization("latency", technique("seeded", 1.3))
    kb.add_optimization(SIBLING.name, technique("block_scan", 1.2))
    kb.add_optimization(SIBLING.name, technique("half_precision", 1.5))
    kb.add_optimization("bank-conflicts", technique("padding", 1.2))
    kb.add_optimization("bank-conflicts", technique("never_tried", 2.0))
    for _ in range(3):
        kb.observe(SIBLING.name, "block_scan", log(12.8), HERE)
        kb.observe(SIBLING.name, "half_precision", "Incorrect", HERE)
    kb.observe("bank-conflicts", "padding", log(2.0), HERE)
    return kb


def around(kb: KnowledgeBase) -> Neighbourhood:
    return Neighbourhood(kb.content(), KERNEL)


def test_a_state_with_many_tags_is_reached_by_all_around_it(kb: KnowledgeBase) -> None:
    """It matches none: the bare state and its sibling are further away than that."""
    near = around(kb)
    assert near.name is None and min(near.distances.values()) > 0.5
    found = {one.technique: one for one in near.techniques("sm_90a", (), "scan")}
    assert set(found) == {"block_scan", "seeded", "half_precision", "padding"}
    first = near.techniques("sm_90a", (), "scan")[0]
    assert first.technique == "block_scan" and first.scored.prediction.speedup > 3
    (precedent,) = first.precedents
    assert precedent.entry.evidence.total.seen == 3 and 0.5 < precedent.distance < 1


def test_what_is_nearer_counts_for_more(kb: KnowledgeBase) -> None:
    near = around(kb)
    assert list(near.distances)[-1] == "bank-conflicts"
    found = {one.technique: one.scored.prediction for one in near.techniques("sm_90a")}
    assert found["padding"].speedup < 1.5  # 2.0 where it was tried, far away
    assert found["half_precision"].valid_chance < 0.65 < found["padding"].valid_chance


def test_the_own_state_overrules_those_around_it(kb: KnowledgeBase) -> None:
    kb.add_state(KERNEL)
    kb.add_optimization(KERNEL.name, technique("block_scan", 1.2))
    before = around(kb).techniques("sm_90a")[0].scored.prediction
    assert before.speedup > 3
    for _ in range(2):
        kb.observe(KERNEL.name, "block_scan", log(0.9), HERE)
    found = {one.technique: one for one in around(kb).techniques("sm_90a")}
    assert found["block_scan"].scored.prediction.speedup < 1.1
    assert found["block_scan"].precedents[0].distance == 0
    kb.record([Retired(state=KERNEL.name, technique="block_scan", reason="it does not pay")])
    assert "block_scan" not in {one.technique for one in around(kb).techniques("sm_90a")}


def test_notes_come_from_states_with_the_same_bottleneck(kb: KnowledgeBase) -> None:
    kb.note(SIBLING.name, "first")
    kb.note(SIBLING.name, "latest")
    kb.note("bank-conflicts", "of another bottleneck")
    assert around(kb).notes() == [(SIBLING.name, "latest"), (SIBLING.name, "first")]


def exemplar(task: str, reach: float, family: str = "scan", *techniques: str) -> Exemplar:
    return Exemplar(
        source=f"// {task} {reach}", techniques=techniques, family=family, architecture="sm_90a",
        task=task, reach=reach,
    )  # fmt: skip


def test_exemplars_of_the_same_kind_come_first(kb: KnowledgeBase) -> None:
    far = exemplar("far", 0.9, "pooling")
    kb.record([Exemplified(state="bank-conflicts", exemplar=far)])
    kb.record([Exemplified(state=SIBLING.name, exemplar=exemplar("near", 0.5, "pooling"))])
    kb.record([Exemplified(state="bank-conflicts", exemplar=exemplar("kin", 0.6, "scan", "block_scan"))])
    found = around(kb).exemplars("scan", ["block_scan"])
    assert [one.exemplar.task for one in found] == ["kin", "near"]
    assert [one.exemplar.task for one in around(kb).exemplars(None, [], [found[1].exemplar.source])] == []


def test_a_state_keeps_few_exemplars_and_the_best_of_each_task(kb: KnowledgeBase) -> None:
    for number in range(KEPT + 3):
        kb.record([Exemplified(state="latency", exemplar=exemplar(f"t{number}", 0.1 * number))])
    kb.record([Exemplified(state="latency", exemplar=exemplar("t6", 0.95))])
    kb.record([Exemplified(state="latency", exemplar=exemplar("t6", 0.2))])
    kept = kb.content().states["latency"].exemplars
    assert [(one.task, one.reach) for one in kept] == [
        ("t6", 0.95), ("t5", 0.5), ("t4", 0.4), ("t3", pytest.approx(0.3))
    ]  # fmt: skip
