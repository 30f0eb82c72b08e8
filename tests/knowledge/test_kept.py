"""A knowledge base that another process has open behaves like one that is opened here."""

from pathlib import Path
from typing import Any

import pytest

from kernelblaster import keeper
from kernelblaster.errors import KnowledgeError
from kernelblaster.keeping.keeper_process import _reply
from kernelblaster.keeping.named import NamedThings
from kernelblaster.knowledge import KnowledgeBase, Provenance
from kernelblaster.knowledge.consolidate import KnowledgeLimits, consolidation
from kernelblaster.knowledge.events import Noted, Retired, Reverted, Reweighed, RolledBack, StatesMerged
from kernelblaster.knowledge.initial import start_knowledge
from kernelblaster.knowledge.kept import KeptKnowledge, open_knowledge
from kernelblaster.knowledge.seed import plant
from kernelblaster.records import Optimization, State


@pytest.fixture
def where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A knowledge base that was claimed; the keeper is in this process."""
    named = NamedThings({}, {"shown": str(tmp_path / "hidden.db")})
    path = str(tmp_path / "kb.db")
    monkeypatch.setattr(keeper, "_way", keeper._Way(kept={path, "shown"}))
    monkeypatch.setattr(keeper, "ask", lambda message, *_: _reply(message, named, None))  # type: ignore[arg-type]
    for kind, name in (("knowledge", path), ("knowledge", "shown"), ("file", str(tmp_path / "copy.db"))):
        named.claim({kind: name})
    named.seal()
    return path


def state(name: str) -> State:
    return State(name=name, primary="latency", description="Slow.")


def fill(knowledge: KnowledgeBase) -> None:
    plant(knowledge)
    knowledge.add_state(state("slow"))
    technique = Optimization(technique="tile", title="Tiles", description="Tiles.", predicted=1.5)
    knowledge.add_optimization("slow", technique)
    knowledge.observe("slow", "tile", 0.25)
    knowledge.note("slow", "a note", "tile")


def test_it_reads_and_learns_like_one_that_is_opened_here(where: str, tmp_path: Path) -> None:
    with open_knowledge(where) as kept, KnowledgeBase(tmp_path / "own.db") as own:
        assert isinstance(kept, KeptKnowledge)
        fill(kept)
        fill(own)
        assert kept.version == own.version and kept.content().entries == own.content().entries
        assert [event.change for event in kept.log()] == [event.change for event in own.log()]
        assert kept.at(3) == own.at(3) and kept.log(2, 4)[0].version == 3
        with pytest.raises(KnowledgeError, match="has no version"):
            kept.at(own.version + 1)
    with KnowledgeBase(where, create=False) as opened:
        assert opened.content().entries["slow"]["tile"].evidence.total.seen == 1


def test_what_others_record_is_seen(where: str) -> None:
    with open_knowledge(where) as kept, KnowledgeBase(where) as other:
        fill(other)
        assert kept.content() == other.content()
        other.observe("slow", "tile", 0.5)
        other.rebuild()
        assert kept.content() == other.content()


def test_it_is_taught_by_another(where: str, tmp_path: Path) -> None:
    with KnowledgeBase(tmp_path / "own.db") as own, open_knowledge(where) as kept:
        fill(own)
        assert kept.merge(own) > 0 and kept.merge(own) == 0
        assert kept.content().states.keys() == own.content().states.keys()


def test_an_address_with_a_password_is_known_to_the_keeper_alone(where: str, tmp_path: Path) -> None:
    with open_knowledge("shown") as kept:
        kept.add_state(state("slow"))
    assert (tmp_path / "hidden.db").is_file() and not Path("shown").exists()


def test_a_copy_is_made_where_the_user_said(where: str, tmp_path: Path) -> None:
    with open_knowledge(where) as kept:
        fill(kept)
    start_knowledge(where, tmp_path / "copy.db")
    with KnowledgeBase(tmp_path / "copy.db", create=False) as copy:
        assert "slow" in copy.content().states
    with pytest.raises(KnowledgeError, match="was not named"):
        start_knowledge(where, tmp_path / "elsewhere.db")


def test_what_a_rejected_candidate_taught_is_withdrawn(where: str) -> None:
    with open_knowledge(where) as kept:
        fill(kept)
        kept.observe("slow", "tile", 3.0, Provenance(run="r", candidate="rejected"))
        assert kept.withdraw(lambda event: event.provenance.candidate == "rejected") == 1
        assert kept.content().entries["slow"]["tile"].evidence.total.seen == 1
        assert kept.withdraw(lambda event: event.provenance.candidate == "rejected") == 0


@pytest.mark.parametrize("change", [RolledBack(version=0), Reverted(version=1)])
def test_what_no_search_does_is_refused(where: str, change: Any) -> None:
    with open_knowledge(where) as kept:
        fill(kept)
        before = kept.content()
        with pytest.raises(KnowledgeError, match="cannot do"):
            kept.record([change])
        for tidying in (lambda: kept.rollback(0), kept.rebuild, lambda: kept.consolidate(0), kept.rebuilt):
            with pytest.raises(KnowledgeError, match="is kept by another process"):
                tidying()
        assert kept.content() == before


def test_a_search_keeps_it_small_and_nothing_else_is_taken_away(where: str, tmp_path: Path) -> None:
    """As a search does after each 500 changes."""
    with open_knowledge(where) as kept:
        fill(kept)
        for name, gain in (("poor", -0.7), ("good", 0.7)):
            technique = Optimization(technique=name, title=name, description="", predicted=1.2)
            kept.add_optimization("slow", technique)
            for _ in range(12):
                kept.observe("slow", name, gain)
        kept.add_state(state("other"))
        for number in range(12):
            kept.observe("slow", "tile", 0.1, Provenance(run=f"{number}"))
        tidying = consolidation(kept.content(), 1, KnowledgeLimits())
        assert {change.kind for change in tidying} >= {"retired", "reweighed"}
        unwanted = [
            Retired(state="slow", technique="good", reason="x"),
            Retired(state="nowhere", technique="good", reason="x"),
            StatesMerged(state="memory-bandwidth", into="latency"),
            Reweighed(entries=(("slow", "good"),), factor=0.001),
        ]
        learned = Noted(state="slow", note="learned meanwhile")
        changes = [learned, *unwanted, *tidying]
        taken = kept.take_over([(change, Provenance(), f"run/{n}") for n, change in enumerate(changes)])
        assert taken == 1 + len(tidying)
        entries = kept.content().entries[kept.content().resolve("slow")]
        assert entries["poor"].retired and entries["good"].retired is None
        assert "learned meanwhile" in kept.content().states[kept.content().resolve("slow")].notes
        with pytest.raises(KnowledgeError, match="cannot do"):
            kept.take_over([(RolledBack(version=0), Provenance(), "run/back")])


@pytest.mark.parametrize(
    "asked",
    [
        {"call": "nothing"},
        {"call": "events", "since": "x", "until": None},
        {"call": "record", "changes": ["{}"], "provenance": "{}"},
        {"call": "record", "changes": 7},
        {"call": "take_over", "known": [[1]]},
        {"call": "changes", "since": {}},
        {},
    ],
)
def test_a_request_that_is_none_is_refused(where: str, asked: dict[str, Any]) -> None:
    reply = keeper.ask({"do": "knowledge", "at": where, **asked}, 10)
    assert "failure" in reply and "internal" not in reply["failure"]["message"]


def test_one_that_was_not_named_is_refused(where: str, tmp_path: Path) -> None:
    with pytest.raises(KnowledgeError, match="not named"):
        KeptKnowledge(str(tmp_path / "other.db"))
    assert not (tmp_path / "other.db").exists()


def test_damage_is_told_as_it_is_here(where: str) -> None:
    Path(where).write_bytes(b"no database at all, but long enough to be looked at" * 20)
    with pytest.raises(KnowledgeError, match="damaged"):
        open_knowledge(where)
