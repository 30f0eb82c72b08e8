"""Fills a knowledge base with any number of invented techniques and observations, for measuring how it
scales."""

from random import Random

from kernelblaster.knowledge import KnowledgeBase, Provenance
from kernelblaster.knowledge.events import Change, EvidenceAdded, OptimizationAdded, StateAdded
from kernelblaster.knowledge.evidence import Evidence
from kernelblaster.records import Optimization, State
from kernelblaster.records.step import Gained

A_STATE = 100
ARCHITECTURES = ("sm_80", "sm_86", "sm_89", "sm_90a")


def grow(kb: KnowledgeBase, optimizations: int, observations: int, seed: int) -> list[str]:
    """Adds invented performance states and techniques to the knowledge base `kb`: one state for every 100 of
    `optimizations` (A_STATE), with 100 techniques each; a rest below 100 is left out. Each technique gets
    `observations` results on each of four GPU architectures. Returns the names of the states. The same seed
    adds the same."""
    random = Random(seed)
    changes: list[Change] = []
    names = [f"grown_{number}" for number in range(optimizations // A_STATE)]
    for name in names:
        state = State(name=name, primary="latency", secondary=(name,), metrics={"busy": random.random()})
        changes.append(StateAdded(state=state))
        for number in range(A_STATE):
            technique = f"technique_{number}"
            optimization = Optimization(
                technique=technique, title=technique, description="grown", predicted=random.uniform(0.8, 2.0)
            )
            changes.append(OptimizationAdded(state=name, optimization=optimization, weight=1.0))
            evidence = _evidence(random, observations)
            changes.append(EvidenceAdded(state=name, technique=technique, evidence=evidence))
    kb.record(changes, Provenance(run="growth"))
    return names


def _evidence(random: Random, observations: int) -> Evidence:
    """Random evidence (measured outcomes of a technique in a state): `observations` invented gains on each
    architecture."""
    evidence = Evidence()
    for architecture in ARCHITECTURES:
        for _ in range(observations):
            before = (f"technique_{random.randrange(4)}",)
            evidence = evidence.with_result(Gained(random.gauss(0.1, 0.2)), architecture, "rows", before)
    return evidence
