"""What agents are told of verdicts and techniques."""

import subprocess
import sys

from kernelblaster.knowledge.content import Content, OptimizationEntry, Scored
from kernelblaster.knowledge.posterior import Prediction
from kernelblaster.mcp.summaries import outcome_data
from kernelblaster.mcp.techniques import described, technique_data
from kernelblaster.mcp.working_tools import TOOLS, in_words
from kernelblaster.readiness import readiness_of
from kernelblaster.records import Fitness, Inconclusive, Incorrect, Optimization
from kernelblaster.records.outcome import Speedup
from kernelblaster.tasks.catalog import load_task


def test_the_server_does_not_load_torch() -> None:
    code = "import sys, kernelblaster.mcp.server; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_an_agent_is_told_why_a_fast_candidate_is_not_accepted() -> None:
    speedup = Speedup(estimate=8.0, low=5.0, high=12.0, confidence=None)
    told = outcome_data(Inconclusive(speedup=speedup, reason="it was not run at its own size"))
    assert told["correct"] and told["why"] == "it was not run at its own size"
    assert "why" not in outcome_data(Inconclusive(speedup=speedup))


def test_what_is_nearly_right_is_told_from_what_is_wrong() -> None:
    evidence = "values step: worst error 1.27e-05, allowed 8.76e-06; worst at out[0, 3]: expected 1, got 1"
    told = outcome_data(Incorrect(reason="wrong values", evidence=evidence))
    assert "not precise enough" in told["why"] and "nearly right" in told["next"]
    told = outcome_data(Incorrect(reason="wrong values", evidence=evidence.replace("1.27e-05", "0.31")))
    assert "something else" in told["why"] and "tails" in told["next"]


def test_a_technique_that_is_known_elsewhere_has_its_description() -> None:
    known = OptimizationEntry(
        state="a",
        technique="tiling",
        title="Tiling",
        description="Stage it.",
        preconditions=("reuse",),
        prior=0.1,
        weight=1.0,
    )
    content = Content(entries={"a": {"tiling": known}})
    bare = [
        Scored(
            Optimization(technique=name, title=name, description="", predicted=1.2),
            known.prediction(None),
            (),
        )
        for name in ("tiling", "unheard_of")
    ]
    first, second = described(bare, content)
    assert isinstance(first.prediction, Prediction)
    data = technique_data(first, None)
    assert (data["title"], data["description"], data["needs"]) == ("Tiling", "Stage it.", ["reuse"])
    assert second == bare[1]


def test_readiness_is_told_in_tools_and_not_in_commands() -> None:
    fitness = Fitness(problems=("it is constant",))
    verbs = {one.verb for one in readiness_of(load_task("core/level1/relu"), fitness)}
    assert {verb for _, *both in TOOLS for verb in both} <= verbs
    why = "the expert does not cover sort. A language model can write it (--model, docs/llm.md)."
    assert in_words(why) == "the expert does not cover sort." and in_words(None) == "works"
