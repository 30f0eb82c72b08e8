"""How `kernelblaster runs` words what it shows."""

from types import SimpleNamespace
from typing import Any

from kernelblaster.cli.runs import _change, _event_text, _techniques

REJECTED = {"outcome": {"kind": "Rejected", "reason": "race", "evidence": "race in k"}, "timing": None}


def test_a_recipe_is_expected_beside_the_floor_and_a_technique_as_a_speedup() -> None:
    assert _change("fast_math", [None, 1.2]) == "unknown -> 1.20x"
    recipe = _change("fast_math + unrolling", [0.4, 0.47])
    assert recipe == "0.40 of the floor's speed -> 0.47 of the floor's speed"
    assert _change("fast_math", None) == "not tried"


def test_a_failure_says_why() -> None:
    assert _event_text("evaluation", {"evaluation": REJECTED}) == "Rejected: race in k"


def test_each_candidate_is_told_with_the_technique_that_made_it() -> None:
    trials = [{"code": "b", "technique": "fast_math"}, {"code": "c", "technique": "unrolling"}]
    events: Any = [
        SimpleNamespace(kind="evaluation", key="a", data={}),
        SimpleNamespace(kind="batch", key="0/0", data={"trials": trials}),
        SimpleNamespace(kind="batch", key="0/1", data={}),  # of an older run
    ]
    made = _techniques(events)
    assert made == {"a": "first candidate", "b": "fast_math", "c": "unrolling"}
    assert _event_text("evaluation", {"evaluation": REJECTED}, made["b"]) == "fast_math: Rejected: race in k"
