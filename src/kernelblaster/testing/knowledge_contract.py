"""Contract that a knowledge base must fulfil on every database (SQLite, PostgreSQL), as a test class to
inherit from.

A subclass provides a fixture `where`: a file or a URL of an empty database.
"""

import json
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

from kernelblaster.errors import KnowledgeError
from kernelblaster.knowledge import (
    KnowledgeBase,
    Provenance,
    Result,
    difference,
    export_document,
    import_changes,
    plant,
)
from kernelblaster.knowledge.events import Observed, Revised
from kernelblaster.records import Optimization, State

HERE = Provenance(
    run="r1", step=3, candidate="c0ffee", gpu="NVIDIA H100", architecture="sm_90a", family="gemm"
)
SLOW = State(name="slow", primary="latency", secondary=("low-occupancy",))
PROCESSES, EACH = 8, 25


def technique(name: str, predicted: float = 1.2) -> Optimization:
    """Returns a technique that a test can add to a performance state: with this name and predicted speedup,
    and made-up words."""
    return Optimization(technique=name, title=name, description=f"what {name} does", predicted=predicted)


def observe_many(where: str, worker: int) -> None:
    """Record 25 observations (EACH) in the knowledge base at `where`, which is created if it is not there. To
    be run in several processes at once (`worker` is the number of this one), to show that they do not get in
    each other's way."""
    with KnowledgeBase(where) as kb:
        kb.add_state(SLOW)
        kb.add_optimization("slow", technique("tile"))
        for step in range(EACH):
            provenance = HERE.model_copy(update={"run": f"worker{worker}", "step": step})
            kb.observe("slow", "tile", 0.1 if step % 5 else "CompileFailed", provenance)


class KnowledgeContract:
    """Tests that a knowledge base must pass on every database; a subclass provides the fixture `where`."""

    @pytest.fixture
    def kb(self, where: str | Path) -> KnowledgeBase:
        """A new knowledge base at `where` with one performance state and two techniques in it, so at version
        3 (three changes)."""
        kb = KnowledgeBase(where)
        kb.add_state(SLOW)
        kb.add_optimization("slow", technique("tile"))
        kb.add_optimization("slow", technique("fuse", 1.5))
        return kb

    def test_what_is_learned_is_there_for_the_next_who_opens_it(
        self, kb: KnowledgeBase, where: str | Path
    ) -> None:
        kb.observe("slow", "tile", 0.7, HERE)
        kb.observe("slow", "tile", "Incorrect", HERE, before=("fuse",))
        kb.note("slow", "needs an aligned row", "tile")
        again = KnowledgeBase(where, create=False)
        assert again.content() == kb.content()
        entry = again.content().entry("slow", "tile")
        assert entry.evidence.failures == {"Incorrect": 1.0}
        assert entry.notes == ("needs an aligned row",)
        assert entry.evidence.gains["sm_90a"]["gemm"].seen == 1
        assert again.log()[-3].provenance == HERE

    def test_two_who_have_it_open_see_each_other(self, kb: KnowledgeBase, where: str | Path) -> None:
        other = KnowledgeBase(where)
        assert other.content() == kb.content()
        kb.observe("slow", "fuse", 0.3, HERE)
        other.observe("slow", "tile", 0.2, HERE)
        assert other.content() == kb.content()
        kb.rollback(3)
        assert other.content() == kb.content() and other.version == 6

    def test_the_tables_are_what_the_events_make(self, kb: KnowledgeBase, where: str | Path) -> None:
        plant(kb)
        for step in range(30):
            name = "tile" if step % 3 else "fuse"
            result: Result = "TimedOut" if step % 7 == 0 else 0.01 * step
            kb.observe("slow", name, result, HERE, before=("fuse",) if step % 2 else ())
        kb.consolidate(seed=1)
        kb.rollback(kb.version - 5)
        kb.observe("slow", "tile", 0.5, HERE)
        incremental = KnowledgeBase(where).content()
        assert incremental == kb.at(kb.version)
        kb.rebuild()
        assert KnowledgeBase(where).content() == incremental

    def test_every_version_can_be_seen_again(self, kb: KnowledgeBase) -> None:
        before = kb.content()
        version = kb.observe("slow", "tile", 0.7, HERE)
        kb.observe("slow", "tile", 0.9, HERE)
        assert kb.at(3).entries == before.entries
        assert kb.at(version).entry("slow", "tile").evidence.total.seen == 1
        changed = difference(kb.at(3), kb.content())
        assert [(c.technique, c.after and c.after.attempts) for c in changed.techniques] == [("tile", 2.0)]
        with pytest.raises(KnowledgeError, match=r"no version 99; the latest is 5"):
            kb.at(99)

    def test_a_rollback_can_be_rolled_back(self, kb: KnowledgeBase) -> None:
        learned = kb.observe("slow", "tile", 0.7, HERE)
        kb.rollback(3)
        assert kb.content().entry("slow", "tile").evidence.total.attempts == 0
        assert len(kb.log()) == 5
        kb.rollback(learned)
        assert kb.content().entry("slow", "tile").evidence.total.attempts == 1

    def test_one_change_can_be_reverted(self, kb: KnowledgeBase) -> None:
        wrong = kb.observe("slow", "tile", 3.0, HERE)
        kb.observe("slow", "tile", 0.1, HERE)
        undone = kb.revert(wrong)
        assert kb.content().entry("slow", "tile").evidence.total.mean == pytest.approx(0.1)
        kb.revert(undone)
        assert kb.content().entry("slow", "tile").evidence.total.attempts == 2
        with pytest.raises(KnowledgeError, match="later changes build on version 2"):
            kb.revert(2)
        assert kb.version == 7

    def test_what_a_candidate_taught_can_be_withdrawn(self, kb: KnowledgeBase) -> None:
        other = HERE.model_copy(update={"candidate": "other"})
        kb.observe("slow", "tile", 2.0, HERE)
        kb.observe("slow", "fuse", 2.0, HERE)
        kb.observe("slow", "tile", 0.1, other)
        kb.note("slow", "stays", "tile", HERE)
        before = kb.version
        assert kb.withdraw(lambda event: event.provenance.candidate == HERE.candidate) == 2
        entry = kb.content().entry("slow", "tile")
        assert entry.evidence.total.mean == pytest.approx(0.1) and entry.notes == ("stays",)
        assert kb.content().entry("slow", "fuse").evidence.total.attempts == 0
        assert kb.version == before + 2 and len(kb.log()) == before + 2  # the events stay
        assert kb.withdraw(lambda event: event.provenance.candidate == HERE.candidate) == 0

    def test_words_can_be_revised(self, kb: KnowledgeBase, where: str | Path) -> None:
        kb.note("slow", "old", "tile")
        kb.record([Revised(state="slow", technique="tile", preconditions=("rows",), notes=("new",))])
        kb.record([Revised(state="slow", description="said better")])
        content = KnowledgeBase(where, create=False).content()
        entry = content.entry("slow", "tile")
        assert (entry.preconditions, entry.notes, entry.description) == (
            ("rows",), ("new",), "what tile does"
        )  # fmt: skip
        assert content.states["slow"].state.description == "said better"

    def test_several_changes_are_recorded_together_or_not_at_all(self, kb: KnowledgeBase) -> None:
        with pytest.raises(KnowledgeError, match="no such state"):
            kb.take_over(
                [(e.change, e.provenance, e.uid + "x") for e in kb.log()]
                + import_changes('{"a": {"primary_bottleneck": "latency", "optimizations": []}}', "text")
                + [(Observed(state="nowhere", technique="tile", result=0.1), HERE, "1")]
            )
        assert kb.version == 3 and list(kb.content().states) == ["slow"]

    def test_merging_takes_over_what_is_new_once(self, kb: KnowledgeBase) -> None:
        other = KnowledgeBase("sqlite://")
        other.add_state(State(name="slow", primary="latency"))
        other.add_optimization("slow", technique("tile", 9.0))
        other.add_state(State(name="wide", primary="atomics"), discovered=True)
        other.observe("slow", "tile", 0.4, HERE)
        kb.observe("slow", "tile", 0.2, HERE)
        assert kb.merge(other) == 4 and kb.merge(other) == 0
        entry = kb.content().entry("slow", "tile")
        assert entry.evidence.total.mean == pytest.approx(0.3)
        assert entry.prediction(None).speedup < 1.5
        assert kb.content().states["wide"].discovered
        assert other.merge(kb) > 0 and other.content().entry("slow", "tile").evidence.total.seen == 2

    def test_a_document_brings_everything_back(self, kb: KnowledgeBase) -> None:
        kb.observe("slow", "tile", 0.4, HERE, before=("fuse",))
        kb.observe("slow", "tile", "Rejected", HERE)
        kb.note("slow", "seen on small rows")
        text = export_document(kb.content())
        other = KnowledgeBase("sqlite://")
        assert other.take_over(import_changes(text, "text")) > 0
        assert other.take_over(import_changes(text, "text")) == 0
        assert json.loads(export_document(other.content())) == json.loads(text)

    def test_many_processes_lose_nothing(self, where: str | Path) -> None:
        with ProcessPoolExecutor(PROCESSES, mp_context=get_context("spawn")) as pool:
            list(pool.map(observe_many, [str(where)] * PROCESSES, range(PROCESSES)))
        kb = KnowledgeBase(where, create=False)
        total = kb.content().entry("slow", "tile").evidence.total
        assert (total.seen, total.failed) == (PROCESSES * (EACH - EACH // 5), PROCESSES * (EACH // 5))
        observed = [e.provenance for e in kb.log() if isinstance(e.change, Observed)]
        assert len({(p.run, p.step) for p in observed}) == len(observed) == PROCESSES * EACH
        assert kb.version <= len(observed) + 2 * PROCESSES  # what is known already is not added again
        assert kb.content() == kb.at(kb.version)
