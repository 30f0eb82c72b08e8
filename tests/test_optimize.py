"""The whole loop on a world whose true gains are known: it finds what pays, remembers it, and goes on
after any interruption as if there had been none."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kernelblaster.devices.specs import gpu_specs
from kernelblaster.errors import KernelBlasterError
from kernelblaster.judge.timing import conclude
from kernelblaster.knowledge.knowledge_base import KnowledgeBase
from kernelblaster.optimize import Optimized, optimize
from kernelblaster.policies.expert.learning import ExpertLearning
from kernelblaster.policies.policy import Attempt, Target
from kernelblaster.records import (
    Candidate,
    Evaluation,
    Floor,
    Incorrect,
    KernelProfile,
    Profile,
    Signature,
    State,
    Task,
    Timing,
    Workload,
)
from kernelblaster.records.outcome import Speedup
from kernelblaster.sessions.settings import Search
from kernelblaster.store.run import create_run, open_run

# What each technique does to the time; `late` pays only once `early` was applied.
GAINS = {"good": 1.6, "bad": 0.7, "early": 1.02, "late": 0.9, "useless": 1.0}
LATE_AFTER_EARLY = 2.0
TASK = Task(
    name="t",
    kind="cuda",
    path="t.cu",
    source="",
    dtype="float32",
    signature=Signature(inputs=(), parameters=(), outputs=(), sizes=()),
    workloads=(Workload(name="primary", sizes={}),),
)


class World(ExpertLearning):
    """A policy whose techniques may each be applied once; `wrong` always breaks the candidate."""

    techniques: Sequence[str] = (*sorted(GAINS), "wrong")

    def initial(self, task: Task) -> Attempt:
        return self._attempt(())

    def targets(self, attempt: Attempt, profile: Profile, floor_bytes: int) -> Sequence[Target]:
        late = "early" in profile.kernels[0].name
        if late:
            state = State(name="prepared", primary="memory-bandwidth", metrics={"dram": 0.9})
        else:
            state = State(name="plain", primary="latency", metrics={"dram": 0.1})
        return [Target(profile.kernels[0].name, 1.0, state)]

    def proposals(self, attempt: Attempt, target: Target, again: int = 0) -> Sequence[str]:
        return [technique for technique in self.techniques if technique not in attempt.form]

    def moves(self, attempt: Attempt, technique: str, target: Target) -> Iterator[Attempt]:
        if technique in self.techniques and technique not in attempt.form:  # it takes no recipes
            yield self._attempt((*attempt.form, technique))

    def retry(
        self, parent: Attempt, technique: str, failed: Attempt, evaluation: Evaluation
    ) -> Attempt | None:
        return None

    def _attempt(self, form: tuple[str, ...]) -> Attempt:
        return Attempt(Candidate(source="/".join(form) or "first"), form)


@dataclass
class WorldJudge:
    """Judges by the true gains; stops the process, as it were, after `life` evaluations."""

    life: int = 10**9
    judged: list[str] = field(default_factory=list)
    device: Any = field(default_factory=lambda: SimpleNamespace(spec=gpu_specs()["h200"], modelled=True))

    def prepare(self, task: Task) -> tuple[None, Floor]:
        return None, Floor(bytes=1, certain_bytes=1, operations=0)

    def confirmed(self, task: Task, candidate: Candidate, evaluation: Evaluation) -> Evaluation:
        return evaluation

    def evaluate_many(self, jobs: Sequence[tuple[Task, Candidate]]) -> Iterator[Evaluation]:
        for _, candidate in jobs:
            yield self._evaluate(candidate)

    def _evaluate(self, candidate: Candidate) -> Evaluation:
        if len(self.judged) >= self.life:
            raise KeyboardInterrupt
        self.judged.append(candidate.source)
        form = [] if candidate.source == "first" else candidate.source.split("/")
        fields: dict[str, Any] = {"outcome": Incorrect(reason="wrong values", evidence="")}
        if "wrong" not in form:
            speedup = true_speedup(form)
            found = Speedup(estimate=speedup, low=speedup, high=speedup, confidence=0.99)
            profile = Profile(
                device="w",
                tier="modelled",
                workload="primary",
                kernels=(KernelProfile(name=candidate.source, grid=(1, 1, 1), block=(1, 1, 1), metrics=()),),
            )
            timing = Timing(
                baseline="b", baseline_us=100, candidate_us=100 / speedup, speedup=found, samples=1,
                candidate_wall_us=None, candidate_activity_us=None, floor_us=1, seconds=0,
            )  # fmt: skip
            fields = {"outcome": conclude(found), "profile": profile, "timing": timing}
        return Evaluation(task="t", candidate=candidate.digest, device="w", seconds=0, **fields)


def true_speedup(form: Sequence[str]) -> float:
    speedup = 1.0
    for place, technique in enumerate(form):
        pays = technique == "late" and "early" in form[:place]
        speedup *= LATE_AFTER_EARLY if pays else GAINS[technique]
    return speedup


def go(
    root: Path, name: str, judge: WorldJudge, seed: int = 1, kb: str = "kb.db", **fields: int
) -> Optimized:
    folder = root / "runs"
    known = [f for f in folder.glob("*") if (f / "name").is_file() and (f / "name").read_text() == name]
    run = open_run(folder, known[0].name, writing=True) if known else create_run(folder)
    (run.folder / "name").write_text(name)
    with run, KnowledgeBase(root / kb) as knowledge:
        search = Search(
            seed=seed, **{"iterations": 6, "rollouts": 2, "steps": 5, "evaluations": 200} | fields
        )
        return optimize(TASK, judge, knowledge, run, search, World())  # type: ignore[arg-type]


def test_it_finds_what_pays_and_what_pays_after_it(tmp_path: Path) -> None:
    found = go(tmp_path, "a", WorldJudge())
    assert set(found.applied) >= {"good", "early", "late"}
    assert found.applied.index("early") < found.applied.index("late")
    assert not {"bad", "wrong"} & set(found.applied)
    assert found.evaluation.candidate == found.candidate.digest


def test_it_remembers_for_the_next_task(tmp_path: Path) -> None:
    go(tmp_path, "a", WorldJudge())
    with KnowledgeBase(tmp_path / "kb.db") as knowledge:
        plain = {s.optimization.technique: s.prediction for s in knowledge.optimizations("plain", "sm_90a")}
        prepared = {s.optimization.technique: s for s in knowledge.optimizations("prepared", "sm_90a")}
    assert plain["good"].mean > 0.2 > plain["bad"].mean
    assert plain["wrong"].invalid > plain["good"].invalid
    assert prepared["late"].prediction.mean > plain["late"].mean


def test_credit_goes_to_the_state_before_the_step(tmp_path: Path) -> None:
    found = go(tmp_path, "a", WorldJudge())
    for step in found.steps:
        if step.technique == "early":
            assert step.state == "plain"


def test_evidence_counts_once_however_often_a_step_is_walked(tmp_path: Path) -> None:
    found = go(tmp_path, "a", WorldJudge())
    walked = [s for s in found.steps if s.technique == "good" and s.state == "plain"]
    with KnowledgeBase(tmp_path / "kb.db") as knowledge:
        seen = [e for e in knowledge.log() if getattr(e.change, "technique", "") == "good"]
        observed = [e for e in seen if e.change.kind == "observed" and e.change.state == "plain"]
    assert len({e.uid for e in observed}) == len(observed) <= len(walked)


def test_the_budget_holds_and_the_best_so_far_is_kept(tmp_path: Path) -> None:
    judge = WorldJudge()
    found = go(tmp_path, "a", judge, evaluations=4)
    assert len(judge.judged) == 4
    assert found.evaluation.outcome.kind in ("Accepted", "Inconclusive")


def test_an_interrupted_run_ends_as_one_that_was_not(tmp_path: Path) -> None:
    whole = WorldJudge()
    expected = go(tmp_path, "whole", whole, kb="one.db")
    pieces: list[str] = []
    for _ in range(len(whole.judged) + 1):
        judge = WorldJudge(life=2)
        try:
            found = go(tmp_path, "pieces", judge, kb="two.db")
            break
        except KeyboardInterrupt:
            pieces += judge.judged
    pieces += judge.judged
    assert pieces == whole.judged
    assert (found.candidate, found.applied, found.steps) == (
        expected.candidate,
        expected.applied,
        expected.steps,
    )
    with KnowledgeBase(tmp_path / "one.db") as one, KnowledgeBase(tmp_path / "two.db") as two:
        assert one.content().entries == two.content().entries


def test_seeds_decide(tmp_path: Path) -> None:
    orders = {
        tuple(judge.judged)
        for seed in range(4)
        for judge in [WorldJudge()]
        if go(tmp_path, f"run {seed}", judge, seed=seed, kb=f"{seed}.db")
    }
    assert len(orders) > 1


def test_a_wrong_first_candidate_is_said(tmp_path: Path) -> None:
    class Hopeless(World):
        def initial(self, task: Task) -> Attempt:
            return self._attempt(("wrong",))

    with (
        create_run(tmp_path) as run,
        KnowledgeBase(tmp_path / "kb.db") as knowledge,
        pytest.raises(KernelBlasterError, match="first candidate is not correct"),
    ):
        optimize(TASK, WorldJudge(), knowledge, run, Search(), Hopeless())  # type: ignore[arg-type]
