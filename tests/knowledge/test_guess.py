"""What is expected of a technique where it was not tried, or not in this family of tasks, and what it is
worth for what it prepares."""

from collections import Counter
from math import log
from random import Random

import pytest

from kernelblaster.knowledge import KnowledgeBase, Provenance, weighted_choice
from kernelblaster.knowledge.guess import UNKNOWN, guesses
from kernelblaster.knowledge.payoff import payoffs
from kernelblaster.records import State
from kernelblaster.testing.knowledge_contract import technique

ROWS = Provenance(architecture="sm_90a", family="rows")
PRODUCTS = Provenance(architecture="sm_90a", family="products")


def base(**priors: float) -> KnowledgeBase:
    kb = KnowledgeBase("sqlite://")
    kb.add_state(State(name="s", primary="latency", metrics={"dram": 0.2}))
    for name, predicted in priors.items():
        kb.add_optimization("s", technique(name, predicted))
    return kb


def test_a_guess_follows_the_nearest_states_that_know_the_technique() -> None:
    kb = base(a=1.0)
    kb.add_state(State(name="far", primary="fp32-pipe", metrics={"dram": 0.9}))
    kb.add_optimization("far", technique("a", 1.0))
    for _ in range(8):
        kb.observe("s", "a", log(2.0), ROWS)
        kb.observe("far", "a", log(0.5), ROWS)
    near_s = State(name="new", primary="latency", metrics={"dram": 0.25})
    near_far = State(name="new", primary="fp32-pipe", metrics={"dram": 0.85})
    content = kb.content()
    assert guesses(content, near_s, ["a"], "sm_90a")["a"] > 0.2
    assert guesses(content, near_far, ["a"], "sm_90a")["a"] < -0.2
    assert guesses(content, near_s, ["unheard"], "sm_90a")["unheard"] == pytest.approx(UNKNOWN)


def test_another_family_of_tasks_counts_until_there_is_evidence_in_this_one() -> None:
    kb = base(a=1.0)
    for _ in range(20):
        kb.observe("s", "a", log(2.0), ROWS)
    entry = kb.content().entry("s", "a")
    assert entry.prediction("sm_90a", (), "products").speedup > 1.8
    for _ in range(8):
        kb.observe("s", "a", log(0.9), PRODUCTS)
    entry = kb.content().entry("s", "a")
    assert entry.prediction("sm_90a", (), "products").speedup < 1.3
    assert entry.prediction("sm_90a", (), "rows").speedup > 1.7


def test_a_preparation_is_worth_what_it_makes_possible() -> None:
    kb = base(tile=1.0, tensor=1.0)
    for _ in range(8):
        kb.observe("s", "tile", 0.0, ROWS)
        kb.observe("s", "tensor", 0.0, ROWS)
        kb.observe("s", "tensor", log(2.4), ROWS, before=("tile",))
    entries = kb.content().entries["s"]
    found = payoffs(entries, "sm_90a", ())
    assert set(found) == {"tile"} and found["tile"] > 0.25
    assert payoffs(entries, "sm_90a", ("tile",)) == {}


def test_a_power_keeps_many_useless_techniques_from_outweighing_one_that_pays() -> None:
    kb = base(good=3.0, **{f"useless_{n}": 1.0 for n in range(20)})
    for n in range(20):
        for _ in range(3):
            kb.observe("s", f"useless_{n}", 0.0, ROWS)
    options = kb.optimizations("s", "sm_90a")
    shares = []
    for power in (1.0, 2.0):
        random = Random(0)
        drawn = Counter(
            weighted_choice(options, 1, random, power)[0].optimization.technique for _ in range(2000)
        )
        shares.append(drawn["good"] / 2000)
    assert shares[0] < 0.75
    assert shares[1] > 0.95
