"""Measured and modelled attempts are told apart, and no figure over all GPUs is made of both."""

from math import log

import pytest

from kernelblaster.knowledge import KnowledgeBase
from kernelblaster.knowledge.differences import score
from kernelblaster.knowledge.events import OptimizationAdded, Provenance, StateAdded
from kernelblaster.knowledge.evidence import Evidence, platform
from kernelblaster.knowledge.retrieval import Neighbourhood
from kernelblaster.knowledge.summary import summarize
from kernelblaster.policies.llm.knowledge_view import technique_pieces
from kernelblaster.records import Optimization, State
from kernelblaster.records.step import Gained
from kernelblaster.report.knowledge_page import knowledge_page

MEASURED, MODELLED = "sm_90a", platform("sm_90a", modelled=True)


def evidence(measured: int, modelled: int) -> Evidence:
    """Attempts that doubled the speed where they were measured, and halved it where they were modelled."""
    seen = Evidence()
    for _ in range(measured):
        seen = seen.with_result(Gained(log(2.0)), MEASURED, "rows", ("fuse",))
    for _ in range(modelled):
        seen = seen.with_result(Gained(log(0.5)), MODELLED, "rows", ("fuse",))
    return seen


@pytest.fixture
def taught():  # type: ignore[no-untyped-def]
    """A knowledge base with a technique that was measured and modelled, and one that was only modelled."""
    with KnowledgeBase(":memory:") as kb:
        state = State(name="memory", primary="memory-bandwidth", description="", metrics={})
        added = [
            OptimizationAdded(
                state="memory",
                optimization=Optimization(technique=name, title=name, description="", predicted=1.0),
                weight=1.0,
            )
            for name in ("both", "emulated_only")
        ]
        kb.record([StateAdded(state=state), *added], Provenance())
        for number in range(4):
            run = {"run": f"r{number}", "gpu": "H200", "family": "rows"}
            kb.observe("memory", "both", log(2.0), Provenance(architecture=MEASURED, **run), ("fuse",))
            for name in ("both", "emulated_only"):
                kb.observe("memory", name, log(0.5), Provenance(architecture=MODELLED, **run), ("fuse",))
        yield kb


def test_attempts_are_counted_apart() -> None:
    seen = evidence(3, 5)
    assert (seen.measured, seen.modelled, seen.clocks) == (3, 5, "3 measured, 5 modelled")
    assert seen.of_one_clock.total.attempts == 3
    assert evidence(0, 5).of_one_clock.total.attempts == 5
    assert Evidence().clocks == ""


def test_a_figure_over_all_gpus_is_of_one_clock(taught) -> None:  # type: ignore[no-untyped-def]
    entries = taught.content().entries["memory"]
    both, emulated = score(entries["both"]), score(entries["emulated_only"])
    assert both.speedup > 1.5 and not both.modelled
    assert emulated.speedup < 0.7 and emulated.modelled
    payoffs = {payoff.technique: payoff for payoff in summarize(taught.content()).payoffs}
    assert payoffs["both"].speedup == pytest.approx(2.0) and not payoffs["both"].modelled
    assert payoffs["emulated_only"].modelled


def test_modelled_attempts_count_for_little_on_the_gpu_itself() -> None:
    """As those of another architecture do: a few of them, and less the more was measured."""
    with KnowledgeBase(":memory:") as kb:
        state = State(name="memory", primary="memory-bandwidth", description="", metrics={})
        technique = Optimization(technique="t", title="t", description="", predicted=1.0)
        added = OptimizationAdded(state="memory", optimization=technique, weight=1.0)
        kb.record([StateAdded(state=state), added], Provenance())
        for _ in range(50):
            kb.observe("memory", "t", log(0.5), Provenance(architecture=MODELLED))
        for _ in range(8):
            kb.observe("memory", "t", log(2.0), Provenance(architecture=MEASURED))
        entry = kb.content().entries["memory"]["t"]
    assert entry.prediction(MEASURED).speedup > 1.2
    assert entry.prediction(MODELLED).speedup < 0.6


def test_pages_and_prompts_say_which(taught) -> None:  # type: ignore[no-untyped-def]
    page = knowledge_page(taught)
    assert "4 measured, 4 modelled" in page and "sm_90a (modelled) 0.5" in page and "sm_90a 2" in page
    assert "taught." in page and "H200, H200 (modelled)" in page
    content = taught.content()
    known = Neighbourhood(content, content.states["memory"].state).techniques(MEASURED)
    pieces = "\n".join(piece.text for piece in technique_pieces(known))
    assert "in this state: 2.00x, 8 of 8 valid (4 measured, 4 modelled)" in pieces
    assert "in this state: 0.50x, 4 of 4 valid (4 modelled)" in pieces
