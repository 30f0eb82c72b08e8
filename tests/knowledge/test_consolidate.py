"""Tidying: near-equal states become one, what does not pay is retired, the much-tried is re-weighed."""

from random import Random

import pytest

from kernelblaster.knowledge import KnowledgeBase, KnowledgeLimits, Provenance
from kernelblaster.knowledge.events import Retired, Reweighed, StatesMerged
from kernelblaster.records import State
from kernelblaster.testing.knowledge_contract import technique

HERE = Provenance(architecture="sm_90a", family="rows")
QUIET = KnowledgeLimits(reweigh=0.0)


@pytest.fixture
def kb() -> KnowledgeBase:
    kb = KnowledgeBase("sqlite://")
    for name, busy in (("a", 0.50), ("b", 0.52), ("c", 0.95)):
        kb.add_state(State(name=name, primary="latency", metrics={"busy": busy}))
        kb.add_optimization(name, technique("tile"))
    kb.add_optimization("b", technique("fuse"))
    return kb


def test_near_equal_states_become_one_and_add_their_evidence(kb: KnowledgeBase) -> None:
    kb.observe("a", "tile", 0.2, HERE)
    kb.observe("a", "tile", 0.2, HERE)
    kb.observe("b", "tile", 0.5, HERE)
    before = kb.version
    assert kb.consolidate(0, QUIET) == [StatesMerged(state="b", into="a")]
    assert kb.content().entry("b", "tile").evidence.total.mean == pytest.approx(0.3)
    assert {s.optimization.technique for s in kb.optimizations("a")} == {"tile", "fuse"}
    kb.observe("b", "fuse", 0.1, HERE)
    assert kb.content().entries["a"]["fuse"].evidence.total.seen == 1
    assert kb.match(State(name="b", primary="latency")) == "a"
    assert [entry.state.name for entry in kb.content().living] == ["a", "c"]
    assert kb.consolidate(0, QUIET) == []
    kb.rollback(before)
    assert kb.content().entry("b", "tile").evidence.total.seen == 1


def test_what_does_not_pay_is_retired_and_can_come_back(kb: KnowledgeBase) -> None:
    random = Random(0)
    for _ in range(20):
        kb.observe("c", "tile", random.gauss(-0.2, 0.05), HERE)
    (retired,) = [c for c in kb.consolidate(0, QUIET) if isinstance(c, Retired)]
    assert (retired.state, retired.technique) == ("c", "tile") and "20 attempts" in retired.reason
    assert kb.optimizations("c") == []
    kb.observe("c", "tile", 0.3, HERE)
    kb.revert(next(e.version for e in kb.log() if e.change == retired))
    assert kb.content().entry("c", "tile").evidence.total.seen == 21
    assert len(kb.optimizations("c")) == 1


def test_what_never_works_is_retired(kb: KnowledgeBase) -> None:
    for _ in range(16):
        kb.observe("c", "tile", "CompileFailed", HERE)
    assert [c.kind for c in kb.consolidate(0, QUIET) if c.kind == "retired"] == ["retired"]


def test_what_pays_after_another_or_elsewhere_is_kept(kb: KnowledgeBase) -> None:
    for _ in range(20):
        kb.observe("c", "tile", -0.2, HERE)
        kb.observe("b", "fuse", -0.2, HERE)
    for _ in range(3):
        kb.observe("c", "tile", 0.6, HERE, before=("fuse",))
        kb.observe("b", "fuse", 0.6, Provenance(architecture="sm_80"))
    assert not [c for c in kb.consolidate(0, QUIET) if isinstance(c, Retired)]


def test_reweighing_is_seeded_and_widens_what_was_tried_much(kb: KnowledgeBase) -> None:
    for name in ("a", "c"):
        kb.add_optimization(name, technique("late"))
        for _ in range(40):
            kb.observe(name, "tile", 0.3, HERE)
    version, before = kb.version, kb.content().entry("a", "tile")
    limits = KnowledgeLimits(same=0.0, reweigh=0.5, factor=0.25)
    first = kb.consolidate(3, limits)
    assert isinstance(first[0], Reweighed) and len(first[0].entries) == 1
    kb.rollback(version)
    assert kb.consolidate(3, limits) == first
    kb.rollback(version)
    kb.consolidate(3, KnowledgeLimits(same=0.0, reweigh=1.0, factor=0.25))
    after = kb.content().entry("a", "tile")
    assert after.evidence.total.seen == 10 and after.evidence.total.mean == pytest.approx(0.3)
    assert after.prediction("sm_90a").spread > before.prediction("sm_90a").spread
    assert kb.content() == kb.at(kb.version)
