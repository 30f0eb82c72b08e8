"""What the strategies with a model need beside the model: estimates, and a knowledge base without memory."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from kernelblaster.knowledge.events import Noted, Observed
from kernelblaster.knowledge.versioned_content import NOBODY
from kernelblaster.policies.llm.roles import cast_of
from kernelblaster.policies.policy import Attempt
from kernelblaster.records import Candidate, Optimization, State
from kernelblaster.records.recipe import Recipe, is_recipe
from kernelblaster.records.target import Target
from kernelblaster.search.expected_calls import expected_calls
from kernelblaster.search.frozen_knowledge import FrozenKnowledge
from kernelblaster.search.strategy import path_to
from kernelblaster.sessions.settings import Search
from tests.policies.llm.scenes import tried
from tests.search.world import World, solve


def test_frozen_knowledge_keeps_names_and_nothing_else(tmp_path: Path) -> None:
    with FrozenKnowledge(tmp_path / "kb.db") as knowledge:
        state = State(name="latency", primary="latency")
        assert knowledge.match(state) == "latency"
        knowledge.add_optimization(
            "latency", Optimization(technique="t", title="t", description="", predicted=1.1)
        )
        seen = Observed(state="latency", technique="t", result=0.5)
        noted = Noted(state="latency", technique="t", note="It pays.")
        assert knowledge.take_over([(seen, NOBODY, "1"), (noted, NOBODY, "2")]) == 0
        knowledge.record([seen, noted])
        entry = knowledge.content().entry("latency", "t")
        assert entry.evidence.total.attempts == 0 and entry.notes == ()


class Together(World):
    """A policy that proposes techniques which belong together."""

    def proposals(self, attempt: Attempt, target: Target, again: int = 0) -> Sequence[str]:
        own = super().proposals(attempt, target, again)
        return own if "fuse" in attempt.form else [str(Recipe(("fuse", "vector"))), *own]


def test_a_search_without_memory_tries_what_belongs_together_and_learns_nothing_from_it(
    tmp_path: Path,
) -> None:
    world = Together()
    with FrozenKnowledge(tmp_path / "kb.db") as knowledge:
        solve(knowledge, tmp_path, world)
        known = [entry for entries in knowledge.content().entries.values() for entry in entries.values()]
    assert ("fuse", "vector") in world.judged
    assert {entry.technique for entry in known if is_recipe(entry.technique)} == {"fuse + vector"}
    assert all(entry.evidence.total.attempts == 0 for entry in known)


def test_an_estimate_names_the_roles_that_a_model_plays() -> None:
    search, cast = Search(evaluations=20, iterations=2, rollouts=1), cast_of([])[0]
    calls = {one.role: one.calls for one in expected_calls(search, "maic-rl", cast)}
    learning = {"policy-evaluator", "gap-analyst", "knowledge-updater"}
    assert set(calls) == {"proposer", "lowerer", "soft-verifier", *learning} and calls["lowerer"] == 20
    without = {one.role for one in expected_calls(search, "no-memory", cast)}
    assert without == {"proposer", "lowerer", "soft-verifier"}
    assert {one.role for one in expected_calls(search, "zero-shot", cast)} == {
        "initial-writer",
        "soft-verifier",
    }
    minimal, guided = (
        {one.role: one for one in expected_calls(search, name, cast)}["lowerer"]
        for name in ("minimal", "maic-rl")
    )
    assert minimal.tokens_in > 2 * guided.tokens_in


@pytest.mark.parametrize(("result", "way"), [(0.4, ("fuse", "unroll")), ("CompileFailed", ())])
def test_the_way_to_a_candidate(result: float | str, way: tuple[str, ...]) -> None:
    step = tried(Candidate(source="x"), "unroll", result, before=("fuse",), child="c")
    assert path_to("c", [step]) == way and path_to("d", [step]) == ()
