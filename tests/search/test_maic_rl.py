"""How the search goes about it: batches, retries, budgets; the world's own truth plays no part here."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

import pytest

from kernelblaster.knowledge import Content, KnowledgeBase
from kernelblaster.optimize import optimize
from kernelblaster.policies.policy import Attempt, Discrepancy
from kernelblaster.records import Candidate, Evaluation, StepId, Target, Task, Unsupported
from kernelblaster.records.selection import Selection
from kernelblaster.sessions.log import Progress
from kernelblaster.sessions.settings import Search
from kernelblaster.store.replay import Sample
from kernelblaster.store.run import create_run, open_run
from tests.search.world import World, attempt_of, solve, task_named


def test_the_candidates_of_a_step_go_to_the_judge_together(tmp_path: Path) -> None:
    world = World()
    solve(KnowledgeBase("sqlite://"), tmp_path, world, rollouts=3, choices=2, evaluations=40)
    assert world.batches[0] == 1
    assert max(world.batches) > 3, "several rollouts in one batch"


def test_no_candidate_is_judged_twice(tmp_path: Path) -> None:
    world = World()
    solve(KnowledgeBase("sqlite://"), tmp_path, world, rollouts=3, evaluations=60)
    assert len(set(world.judged)) == len(world.judged)


@dataclass
class Twins(World):
    """Two names for everything: `x`, and `x_too`, which leads to the same candidate."""

    def proposals(self, attempt: Attempt, target: Target, again: int = 0) -> Sequence[str]:
        return [name for one in super().proposals(attempt, target) for name in (one, f"{one}_too")]

    def moves(self, attempt: Attempt, technique: str, target: Target) -> Iterator[Attempt]:
        return super().moves(attempt, technique.removesuffix("_too"), target)


def test_techniques_that_lead_to_the_same_candidate_are_one_choice(tmp_path: Path) -> None:
    world = Twins()
    kb = KnowledgeBase("sqlite://")
    found = solve(kb, tmp_path, world, rollouts=1, choices=3, evaluations=13)
    by_child: dict[str, set[str]] = {}
    for step in found.steps:
        by_child.setdefault(step.child, set()).add(step.technique)
    assert max(world.batches) == 3, "so many candidates are tried at each step"
    assert any(len(names) == 2 for names in by_child.values()), "and both names learn"


def test_the_order_in_which_verdicts_arrive_does_not_matter(tmp_path: Path) -> None:
    class Backwards(World):
        def evaluate_many(self, jobs: Sequence[tuple[Task, Candidate]]) -> Iterator[Evaluation]:
            yield from reversed(list(super().evaluate_many(jobs)))

    kept = []
    for world in (World(), Backwards()):
        kb = KnowledgeBase("sqlite://")
        found = solve(kb, tmp_path / type(world).__name__, world, rollouts=3)
        kept.append((found.candidate, found.steps, kb.content().entries))
    assert kept[0] == kept[1]


@dataclass
class Looking(World):
    """Offers the same in another order where the knowledge base knows the state, as a policy may that looks
    there; and is cut off after so many moves."""

    knowledge: KnowledgeBase = field(default_factory=lambda: KnowledgeBase("sqlite://"))
    moves_left: int = 1000

    def proposals(self, attempt: Attempt, target: Target, again: int = 0) -> Sequence[str]:
        found = super().proposals(attempt, target)
        return found[::-1] if self.knowledge.content().entries.get(target.state.name) else found

    def moves(self, attempt: Attempt, technique: str, target: Target) -> Iterator[Attempt]:
        self.moves_left -= 1
        if self.moves_left < 0:
            raise KeyboardInterrupt
        return super().moves(attempt, technique, target)


def test_a_draw_that_was_cut_off_is_drawn_from_the_same_offer(tmp_path: Path) -> None:
    search = Search(evaluations=6, rollouts=1, choices=1, iterations=2, seed=3)
    ways = []
    for folder, cuts in (("whole", ()), ("cut", range(30))):
        knowledge, task = KnowledgeBase("sqlite://"), task_named("t")
        with create_run(tmp_path / folder) as run:
            name = run.name
        for moves in (*cuts, 1000):
            world = Looking(knowledge=knowledge, moves_left=moves)
            with open_run(tmp_path / folder, name, writing=True) as run, suppress(KeyboardInterrupt):
                found = optimize(task, world, knowledge, run, search, world)  # type: ignore[arg-type]
        ways.append([(step.technique, step.child) for step in found.steps])
    assert ways[0] == ways[1] and ways[0]


@dataclass
class Stubborn(World):
    """Its only technique fails at the first move and works at the third."""

    told: list[str] = field(default_factory=list)

    def proposals(self, attempt: Attempt, target: Target, again: int = 0) -> Sequence[str]:
        return ["fuse"] if not attempt.form else []

    def moves(self, attempt: Attempt, technique: str, target: Target) -> Iterator[Attempt]:
        yield attempt_of(("fragile", "x1"))

    def retry(
        self, parent: Attempt, technique: str, failed: Attempt, evaluation: Evaluation
    ) -> Attempt | None:
        self.told.append(evaluation.outcome.kind)
        return (
            attempt_of(("fragile", f"x{len(self.told) + 1}")) if len(self.told) < 2 else attempt_of(("fuse",))
        )


@pytest.mark.parametrize(("retries", "works"), [(0, False), (1, False), (2, True)])
def test_a_failure_is_retried_with_what_was_said_about_it(tmp_path: Path, retries: int, works: bool) -> None:
    world = Stubborn()
    found = solve(KnowledgeBase("sqlite://"), tmp_path, world, retries=retries)
    assert world.told == ["CompileFailed"] * retries
    assert (found.applied == ("fuse",)) is works
    assert [str(step.id) for step in found.steps[: retries + 1]] == ["0/0/0/0", "0/0/0/0.1", "0/0/0/0.2"][
        : retries + 1
    ]


def test_what_the_device_cannot_judge_is_not_tried_again_and_teaches_nothing(tmp_path: Path) -> None:
    class Blind(World):
        def evaluate_many(self, jobs: Sequence[tuple[Task, Candidate]]) -> Iterator[Evaluation]:
            for evaluation, (_, candidate) in zip(super().evaluate_many(jobs), jobs, strict=True):
                unknown = {"outcome": Unsupported(reason="an instruction")}
                yield evaluation.model_copy(update=unknown if "vector" in candidate.source else {})

    kb, world = KnowledgeBase("sqlite://"), Blind()
    solve(kb, tmp_path, world, rollouts=1, choices=1, evaluations=40)
    assert sum("vector" in form for form in world.judged) == 1
    assert not [e for e in kb.log() if e.change.kind == "observed" and e.change.technique == "vector"]


@pytest.mark.parametrize("limit", [1, 2, 7])
def test_no_more_candidates_are_judged_than_were_allowed(tmp_path: Path, limit: int) -> None:
    world = World()
    solve(KnowledgeBase("sqlite://"), tmp_path, world, evaluations=limit, rollouts=3)
    assert len(world.judged) == limit


def test_device_time_is_reserved_before_a_batch(tmp_path: Path) -> None:
    world = World(device_seconds=2.0)
    solve(KnowledgeBase("sqlite://"), tmp_path, world, gpu_seconds=11.0, rollouts=3)
    assert len(world.judged) == 5, "a sixth would need 12 seconds"


def test_wall_time_ends_a_search(tmp_path: Path) -> None:
    world = World()
    solve(KnowledgeBase("sqlite://"), tmp_path, world, wall_seconds=1e-6)
    assert len(world.judged) == 1


def test_a_search_ends_near_the_floor(tmp_path: Path) -> None:
    world = World(noise=0.0)
    found = solve(KnowledgeBase("sqlite://"), tmp_path, world, near_floor=60.0, evaluations=60)
    assert len(world.judged) < 60
    assert found.evaluation.timing is not None and found.evaluation.timing.candidate_us <= 60


@pytest.mark.parametrize("selection", get_args(Selection))
def test_every_selection_finds_what_pays(tmp_path: Path, selection: str) -> None:
    kb = KnowledgeBase("sqlite://")
    for number in range(3):
        found = solve(kb, tmp_path, World(number), selection=selection, evaluations=40)
    assert "fuse" in found.applied


def test_progress_tells_everything_that_a_view_needs(tmp_path: Path) -> None:
    seen: list[Progress] = []
    world: Any = World(device_seconds=0.5)
    search = Search(evaluations=12, wall_seconds=600, gpu_seconds=60)
    with create_run(tmp_path) as run:
        found = optimize(task_named("t"), world, KnowledgeBase("sqlite://"), run, search, world, seen.append)
    stepped = [p for p in seen if p.phase == "stepped"]
    assert [p.step for p in stepped] == found.steps
    last = stepped[-1]
    assert (
        last.best_us is not None and last.first_us == 100 and last.baseline_us == 100 and last.floor_us == 1
    )
    assert last.evaluations == 12 and last.evaluations_left == 0
    assert last.gpu_seconds_left == pytest.approx(54) and 0 < (last.seconds_left or 0) <= 600
    assert {p.phase for p in seen} == {"judging", "stepped", "learned"}
    judging = next(p for p in seen if p.phase == "judging")
    assert judging.technique and judging.state == "plain"
    assert judging.result is None and judging.id == StepId(0, 0, 0)


def test_earlier_runs_that_taught_the_same_knowledge_base_are_replayed(tmp_path: Path) -> None:
    @dataclass
    class Listening(World):
        earlier: list[int] = field(default_factory=list)

        def evaluate(
            self, fresh: Sequence[Sample], earlier: Sequence[Sample], theta: Content, architecture: str
        ) -> Sequence[Discrepancy]:
            self.earlier.append(len(earlier))
            return super().evaluate(fresh, earlier, theta, architecture)

    kb = KnowledgeBase(tmp_path / "kb.db")
    first = solve(kb, tmp_path, World())
    (folder,) = tmp_path.glob("task*/*")
    folder.rename(folder.with_name("20000101-000000-000000"))
    same, other = Listening(), Listening()
    solve(kb, tmp_path, same)
    solve(KnowledgeBase(tmp_path / "other.db"), tmp_path, other)
    assert same.earlier[0] == len(first.steps)
    assert other.earlier[0] == 0
