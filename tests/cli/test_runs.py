"""How `kernelblaster runs` words what it shows."""

from kernelblaster.cli.runs import _change, _event_text

REJECTED = {"outcome": {"kind": "Rejected", "reason": "race", "evidence": "race in k"}, "timing": None}


def test_a_recipe_is_expected_beside_the_floor_and_a_technique_as_a_speedup() -> None:
    assert _change("fast_math", [None, 1.2]) == "unknown -> 1.20x"
    recipe = _change("fast_math + unrolling", [0.4, 0.47])
    assert recipe == "0.40 of the floor's speed -> 0.47 of the floor's speed"
    assert _change("fast_math", None) == "not tried"


def test_a_failure_says_why() -> None:
    assert _event_text("evaluation", {"evaluation": REJECTED}) == "Rejected: race in k"
