"""Techniques that paid together, under one name."""

from math import log

import pytest

from kernelblaster.knowledge import Content, KnowledgeBase, Provenance
from kernelblaster.knowledge.guess import guesses
from kernelblaster.knowledge.recipes import LONGEST, OFFERED, recipe_of, recipes_for
from kernelblaster.records import State
from kernelblaster.records.recipe import JOINED, Recipe, techniques_of
from kernelblaster.testing.knowledge_contract import technique

ROWS = Provenance(architecture="sm_90a", family="rows")


def base(*recipes: str) -> KnowledgeBase:
    kb = KnowledgeBase("sqlite://")
    kb.add_state(State(name="s", primary="latency"))
    kb.add_state(State(name="other", primary="fp32-pipe"))
    for recipe in recipes:
        kb.add_optimization("s", technique(recipe, 0.5))
        kb.observe("s", recipe, log(0.5), ROWS)
    return kb


def offered(
    content: Content, state: str = "s", family: str = "rows", applied: tuple[str, ...] = ()
) -> list[str]:
    return [str(recipe) for recipe in recipes_for(content, state, "sm_90a", applied, family)]


def test_a_recipe_is_the_same_whatever_the_order() -> None:
    recipe = recipe_of([("b", 1.0), ("a", 0.2), ("b", 0.3)])
    assert recipe == recipe_of([("a", 0.1), ("b", 0.1)]) == Recipe.parse("b + a") == Recipe(("a", "b"))
    assert str(recipe) == "a + b", "as runs and knowledge bases store it"
    assert Recipe.parse("a") is None and techniques_of("a + b") == ("a", "b")
    with pytest.raises(ValueError, match="a recipe has two techniques or more"):
        Recipe(("b", "a"))
    assert recipe_of([("a", 1.0), ("a", 0.5)]) is None
    assert recipe_of([]) is None
    assert techniques_of("a") == ("a",)


def test_a_name_that_is_too_long_loses_what_gained_least() -> None:
    gains = [(f"technique_number_{n:02}", float(n)) for n in range(20)]
    recipe = recipe_of(gains)
    assert recipe is not None and len(str(recipe)) <= LONGEST
    assert recipe.techniques == tuple(n for n, _ in gains[-len(recipe.techniques) :])


def test_recipes_of_the_same_family_are_offered_in_every_state() -> None:
    content = base("a + b").content()
    assert offered(content) == ["a + b"]
    assert offered(content, "other") == ["a + b"]
    assert offered(content, "other", "products") == []
    assert offered(content, "s", "products") == []


def test_what_nobody_tried_is_offered_in_its_own_state() -> None:
    kb = base()
    kb.add_optimization("s", technique("a + b", 0.5))
    assert offered(kb.content(), "s", "products") == ["a + b"]
    assert offered(kb.content(), "other", "products") == []


def test_what_many_ways_of_a_family_have_is_offered_first_as_a_whole() -> None:
    content = base("a + b", "b + c", "a + c", "a + d").content()
    assert offered(content)[0] == "a + b + c", "a quarter of the ways is not many"
    assert set(offered(content)[1:]) == {"a + b", "b + c", "a + c", "a + d"}
    guess = guesses(content, State(name="new", primary="latency"), ["a + b + c"], "sm_90a", "rows")
    assert guess["a + b + c"] == pytest.approx(log(0.5), abs=0.01), "like those that are like it"


def test_what_is_nearly_done_is_left_to_the_last_technique() -> None:
    content = base("a + b + c").content()
    assert offered(content, applied=("a",)) == ["a + b + c"]
    assert offered(content, applied=("c", "a")) == []


def test_only_the_best_are_offered() -> None:
    kb = base(*(f"a{JOINED}b{n}" for n in range(OFFERED + 4)))
    kb.observe("s", "a + b7", log(0.9), ROWS)
    found = offered(kb.content())
    assert len(found) == OFFERED and found[0] == "a + b7"
    assert offered(kb.content(), "other", "products") == []


def test_what_led_furthest_here_is_offered_whatever_others_did_elsewhere() -> None:
    kb = base("c + d", "e + f")
    for number in range(OFFERED + 2):
        recipe = f"a{JOINED}b{number}"
        kb.add_optimization("other", technique(recipe, 0.5))
        kb.observe("other", recipe, log(0.9), ROWS)
    kb.observe("s", "c + d", log(0.6), ROWS)
    found = offered(kb.content())
    assert "c + d" in found[:2] and "e + f" not in found


def test_a_recipe_is_known_by_what_it_did_in_this_state() -> None:
    kb = base("c + d", "e + f")
    for recipe in ("c + d", "e + f"):
        kb.add_optimization("other", technique(recipe, 0.5))
        kb.observe("other", recipe, log(0.9), ROWS)
    for _ in range(5):
        kb.observe("s", "c + d", log(0.05), ROWS)
        kb.observe("s", "e + f", log(0.5), ROWS)
    found = offered(kb.content())
    assert found.index("e + f") < found.index("c + d")


def test_a_recipe_is_expected_to_lead_elsewhere_where_it_led_in_its_family() -> None:
    kb = base("a + b")
    for _ in range(3):
        kb.observe("s", "a + b", log(0.9), ROWS)
    content = kb.content()
    elsewhere = State(name="new", primary="fp32-pipe")
    assert guesses(content, elsewhere, ["a + b"], "sm_90a", "rows")["a + b"] > log(0.51)
