"""A world whose true gains are known, to be searched and learned in place of kernels and GPUs.

A candidate is the sequence of techniques applied, each at most once; its state is `plain`, and `fused`
once `fuse` was applied.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import exp, log
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

from kernelblaster.devices.specs import gpu_specs
from kernelblaster.judge.timing import conclude
from kernelblaster.knowledge import KnowledgeBase
from kernelblaster.optimize import Optimized, optimize
from kernelblaster.policies.expert.learning import ExpertLearning
from kernelblaster.policies.policy import Attempt
from kernelblaster.records import (
    Candidate,
    CompileFailed,
    Evaluation,
    Floor,
    KernelProfile,
    Metric,
    Profile,
    Signature,
    State,
    Task,
    Timing,
    Workload,
)
from kernelblaster.records.outcome import Speedup
from kernelblaster.records.recipe import techniques_of
from kernelblaster.records.target import Target
from kernelblaster.sessions.settings import Search
from kernelblaster.store.run import create_run

# True speedups by state. `tensor` pays only after `tile`, which by itself gains nothing.
GAINS = {
    "plain": {"fuse": 1.8, "tile": 1.0, "tensor": 0.85, "vector": 0.9, "unroll": 1.0, "shape": 0.95},
    "fused": {"tile": 1.0, "tensor": 0.85, "vector": 1.5, "unroll": 1.0, "shape": 0.95},
}
AFTER_TILE = {"tensor": 2.4}
FRAGILE = "fragile"  # would gain 1.3, but compiles in one case of five
STATES = {
    "plain": State(name="plain", primary="latency", metrics={"dram": 0.1}),
    "fused": State(name="fused", primary="memory-bandwidth", metrics={"dram": 0.9}),
}
IN_TURN = ("fuse", "tile", "tensor", "vector", "unroll", "shape", FRAGILE)  # how a recipe is applied
BEST = 1.8 * 2.4 * 1.5


@dataclass
class World(ExpertLearning):
    """Policy and judge in one. Results vary by `noise` around the truth, differently in each task."""

    task: int = 0
    noise: float = 0.04
    device_seconds: float = 0.0
    batches: list[int] = field(default_factory=list)
    judged: list[tuple[str, ...]] = field(default_factory=list)
    device: Any = field(default_factory=lambda: SimpleNamespace(spec=gpu_specs()["h200"], modelled=True))

    # As a policy

    def initial(self, task: Task) -> Attempt:
        return attempt_of(())

    def targets(self, attempt: Attempt, profile: Profile, floor_bytes: int) -> Sequence[Target]:
        return [Target("kernel", 1.0, STATES[state_of(attempt.form)], "family")]

    def proposals(self, attempt: Attempt, target: Target, again: int = 0) -> Sequence[str]:
        names = (*GAINS[target.state.name], FRAGILE)
        return [name for name in names if name not in attempt.form]

    def moves(self, attempt: Attempt, technique: str, target: Target) -> Iterator[Attempt]:
        new = [part for part in IN_TURN if part in techniques_of(technique) and part not in attempt.form]
        for count in range(len(new), 0, -1):
            yield replace(attempt_of((*attempt.form, *new[:count])), applied=tuple(new[:count]))

    def retry(
        self, parent: Attempt, technique: str, failed: Attempt, evaluation: Evaluation
    ) -> Attempt | None:
        """The next shorter form of a recipe."""
        shorter = failed.form[:-1]
        if len(shorter) == len(parent.form):
            return None
        return replace(attempt_of(shorter), applied=shorter[len(parent.form) :])

    # As a judge

    def prepare(self, task: Task) -> tuple[None, Floor]:
        return None, Floor(bytes=1, certain_bytes=1, operations=0)

    def confirmed(self, task: Task, candidate: Candidate, evaluation: Evaluation) -> Evaluation:
        return evaluation

    def evaluate_many(self, jobs: Sequence[tuple[Task, Candidate]]) -> Iterator[Evaluation]:
        self.batches.append(len(jobs))
        for _, candidate in jobs:
            form = form_of(candidate)
            self.judged.append(form)
            yield self._evaluation(candidate, form)

    def _evaluation(self, candidate: Candidate, form: tuple[str, ...]) -> Evaluation:
        fields: dict[str, Any] = {"outcome": CompileFailed(reason="a syntax error", log="")}
        if FRAGILE not in form or Random(f"{self.task}/{form}").random() < 0.2:
            speedup = self.speedup(form)
            found = Speedup(estimate=speedup, low=speedup, high=speedup, confidence=0.99)
            timing = Timing(
                baseline="b", baseline_us=100, candidate_us=100 / speedup, speedup=found, samples=1,
                candidate_wall_us=None, candidate_activity_us=None, floor_us=1, seconds=0,
            )  # fmt: skip
            fields = {"outcome": conclude(found), "profile": profile_of(form), "timing": timing}
        return Evaluation(
            task="t",
            candidate=candidate.digest,
            device="w",
            seconds=0,
            device_seconds=self.device_seconds,
            **fields,
        )

    def speedup(self, form: tuple[str, ...]) -> float:
        total = 0.0
        for place in range(len(form)):
            noise = Random(f"{self.task}/{form[: place + 1]}").gauss(0, self.noise)
            total += log(true_gain(form[:place], form[place])) + noise
        return exp(total)


def true_gain(before: Sequence[str], technique: str) -> float:
    if technique == FRAGILE:
        return 1.3
    if technique in AFTER_TILE and "tile" in before:
        return AFTER_TILE[technique]
    return GAINS[state_of(before)][technique]


def state_of(form: Sequence[str]) -> str:
    return "fused" if "fuse" in form else "plain"


def attempt_of(form: tuple[str, ...]) -> Attempt:
    return Attempt(Candidate(source="/".join(form) or "first"), form, frozenset({"kernel"}))


def form_of(candidate: Candidate) -> tuple[str, ...]:
    return () if candidate.source == "first" else tuple(candidate.source.split("/"))


def profile_of(form: Sequence[str]) -> Profile:
    busy = 90.0 if state_of(form) == "fused" else 10.0
    metrics = (
        Metric(name="DRAM Throughput", unit="%", value=busy, tier="modelled"),
        Metric(name="Duration", unit="us", value=50.0, tier="modelled"),
    )
    kernel = KernelProfile(name="kernel", grid=(999, 1, 1), block=(256, 1, 1), metrics=metrics)
    return Profile(device="w", tier="modelled", workload="primary", kernels=(kernel,))


def task_named(name: str) -> Task:
    return Task(
        name=name,
        kind="cuda",
        path="t.cu",
        source="",
        dtype="float32",
        signature=Signature(inputs=(), parameters=(), outputs=(), sizes=()),
        workloads=(Workload(name="primary", sizes={}),),
    )


def solve(knowledge: KnowledgeBase, folder: Path, world: World, seed: int = 0, **fields: Any) -> Optimized:
    """One task of this world, searched with the real loop."""
    search = Search.model_validate({"seed": seed, "evaluations": 24, **fields})
    task = task_named(f"task {world.task}")
    with create_run(folder / f"task {world.task}, seed {seed}") as run:
        return optimize(task, world, knowledge, run, search, world)  # type: ignore[arg-type]


def evaluations_until(world: World, speedup: float) -> int | None:
    """How many candidates were judged until one reached a speedup; None if none did."""
    valid = [(n, form) for n, form in enumerate(world.judged, 1) if FRAGILE not in form]
    return next((n for n, form in valid if world.speedup(form) >= speedup), None)
