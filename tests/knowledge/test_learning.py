"""A simulated environment with known true gains: does the knowledge base find them out?"""

from collections import Counter
from dataclasses import dataclass, field
from math import log
from random import Random

import pytest

from kernelblaster.knowledge import KnowledgeBase, Provenance, Scored, thompson, weighted_choice
from kernelblaster.records import Optimization, State
from kernelblaster.testing.knowledge_contract import technique

H100 = Provenance(architecture="sm_90a", family="pointwise")
A100 = Provenance(architecture="sm_80", family="pointwise")


@dataclass
class World:
    """True speedups and chances of a valid candidate; `pays_after` needs another technique first."""

    gains: dict[str, float]
    valid: dict[str, float] = field(default_factory=dict)
    pays_after: dict[str, str] = field(default_factory=dict)
    noise: float = 0.05
    random: Random = field(default_factory=lambda: Random(7))

    def attempt(self, name: str, before: tuple[str, ...] = ()) -> float | str:
        if self.random.random() > self.valid.get(name, 1.0):
            return "Incorrect"
        ready = self.pays_after.get(name) in (None, *before)
        return self.random.gauss(log(self.gains[name]) if ready else 0.0, self.noise)


def learner(priors: dict[str, float]) -> KnowledgeBase:
    kb = KnowledgeBase("sqlite://")
    kb.add_state(State(name="s", primary="latency"))
    for name, predicted in priors.items():
        kb.add_optimization("s", technique(name, predicted))
    return kb


def chosen(kb: KnowledgeBase, random: Random, how=weighted_choice) -> str:  # type: ignore[no-untyped-def]
    return how(kb.optimizations("s", "sm_90a"), 1, random)[0].optimization.technique


def named(kb: KnowledgeBase, name: str, applied: tuple[str, ...] = (), on: str = "sm_90a") -> Scored:
    found: dict[str, Scored] = {s.optimization.technique: s for s in kb.optimizations("s", on, applied)}
    return found[name]


def test_the_posterior_converges_to_the_true_gain() -> None:
    kb, world = learner({"a": 1.1}), World({"a": 1.8}, valid={"a": 0.7})
    errors, spreads = [], []
    for round_ in range(1, 161):
        kb.observe("s", "a", world.attempt("a"), H100)
        if round_ in (10, 40, 160):
            prediction = named(kb, "a").prediction
            errors.append(abs(prediction.mean - log(1.8)))
            spreads.append(prediction.spread)
    assert errors[-1] < 0.02 and errors[0] > errors[-1]
    assert spreads[0] > spreads[1] > spreads[2]
    assert errors[-1] < 3 * spreads[-1]
    assert prediction.valid_chance == pytest.approx(0.7, abs=0.1)


@pytest.mark.parametrize("how", [weighted_choice, thompson])
def test_selection_concentrates_on_what_pays(how) -> None:  # type: ignore[no-untyped-def]
    gains = {"best": 2.0, "some": 1.1, "none": 1.0, "bad": 0.6, "worse": 0.5}
    early, late = Counter[str](), Counter[str]()
    for seed in range(5):
        kb, world, random = learner(dict.fromkeys(gains, 1.3)), World(gains), Random(seed)
        picks = []
        for _ in range(100):
            picks.append(chosen(kb, random, how))
            kb.observe("s", picks[-1], world.attempt(picks[-1]), H100)
        assert Counter(picks[-40:])["best"] >= 0.6 * 40
        early.update(picks[:5])
        late.update(picks[-40:])
    assert len(early) == len(gains), "everything gets its chance"
    assert early["best"] / early.total() < 0.5
    assert late["best"] / late.total() > 0.7


def test_a_misleading_prior_is_corrected() -> None:
    kb, world, random = (
        learner({"promised": 3.0, "doubted": 0.9}),
        World({"promised": 0.8, "doubted": 1.5}),
        Random(1),
    )
    assert kb.optimizations("s", "sm_90a")[0].optimization.technique == "promised"
    for _ in range(60):
        name = chosen(kb, random)
        kb.observe("s", name, world.attempt(name), H100)
    assert kb.optimizations("s", "sm_90a")[0].optimization.technique == "doubted"
    assert named(kb, "doubted").optimization.predicted == pytest.approx(1.5, rel=0.1)
    assert named(kb, "promised").optimization.predicted < 1.0


def test_a_technique_that_never_compiles_loses_its_place() -> None:
    kb, world = learner({"broken": 2.0, "plain": 1.2}), World({"broken": 2.0, "plain": 1.2}, {"broken": 0.0})
    for name in ["broken", "plain"] * 12:
        kb.observe("s", name, world.attempt(name), H100)
    assert kb.optimizations("s", "sm_90a")[0].optimization.technique == "plain"


def test_a_technique_that_only_pays_after_another_is_found() -> None:
    world = World({"tile": 1.05, "tensor": 2.4}, pays_after={"tensor": "tile"})
    kb, random = learner({"tile": 1.2, "tensor": 1.2}), Random(5)
    for _ in range(40):  # trajectories of two steps, in an order that chance decides
        before: tuple[str, ...] = ()
        for name in random.choices(["tile", "tensor"], k=2):
            kb.observe("s", name, world.attempt(name, before), H100, before=before)
            before += (name,)
    after, alone = named(kb, "tensor", ("tile",)).prediction, named(kb, "tensor").prediction
    assert after.speedup == pytest.approx(2.4, rel=0.1) and alone.speedup == pytest.approx(1.0, abs=0.1)
    assert after.after == "tile"
    ranked = [
        kb.optimizations("s", "sm_90a", applied)[0].optimization.technique for applied in ((), ("tile",))
    ]
    assert ranked == ["tile", "tensor"]


def test_a_preparation_can_be_what_makes_it_valid() -> None:
    kb = learner({"copy": 1.3})
    for _ in range(8):
        kb.observe("s", "copy", "Inapplicable", H100)
        kb.observe("s", "copy", 0.25, H100, before=("tile",))
    assert named(kb, "copy", ("tile",)).prediction.valid_chance > 0.75
    assert named(kb, "copy").prediction.valid_chance < 0.35


def test_other_architectures_count_until_there_is_evidence_here() -> None:
    kb, world = learner({"a": 1.1}), World({"a": 2.0})
    for _ in range(30):
        kb.observe("s", "a", world.attempt("a"), A100)
    known, foreign = named(kb, "a", on="sm_80").prediction, named(kb, "a").prediction
    assert foreign.speedup == pytest.approx(2.0, rel=0.05)
    assert foreign.spread > 2 * known.spread
    world.gains["a"] = 0.9
    for _ in range(12):
        kb.observe("s", "a", world.attempt("a"), H100)
    assert named(kb, "a").prediction.speedup < 1.15
    assert named(kb, "a", on="sm_80").prediction.speedup == pytest.approx(2.0, rel=0.1)


def test_credit_goes_to_the_state_before_the_step() -> None:
    kb = learner({"a": 1.2})
    kb.add_state(State(name="after", primary="fp32-pipe"))
    kb.add_optimization("after", technique("a"))
    kb.observe("s", "a", 0.9, H100)
    assert kb.content().entry("s", "a").evidence.total.seen == 1
    assert kb.content().entry("after", "a").evidence.total.seen == 0


def test_choices_follow_the_seed() -> None:
    kb = learner({name: 1.0 + 0.1 * place for place, name in enumerate("abcdefgh")})
    options = kb.optimizations("s", "sm_90a")
    for how in (weighted_choice, thompson):
        picks = [[s.optimization.technique for s in how(options, 4, Random(seed))] for seed in (1, 1, 2)]
        assert picks[0] == picks[1] != picks[2]
        assert len(set(picks[0])) == 4
        assert how(options, 100, Random(0)) and len(how(options, 100, Random(0))) == 8
        assert how([], 3, Random(0)) == []


def test_the_chance_of_a_choice_is_its_share_of_the_gain() -> None:
    kb = learner({"one": 1.2, "two": 1.6})
    options = kb.optimizations("s")
    random, count = Random(0), 4000
    first = Counter(weighted_choice(options, 1, random)[0].optimization.technique for _ in range(count))
    gains = {s.optimization.technique: s.prediction.gain for s in options}
    assert first["two"] / count == pytest.approx(gains["two"] / sum(gains.values()), abs=0.03)
    assert isinstance(options[0].optimization, Optimization)
