"""People steer a search: what they ask for happens between two steps, is recorded, and happens again in the
same place when the search is continued."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from kernelblaster.errors import SearchStopped
from kernelblaster.knowledge import KnowledgeBase
from kernelblaster.optimize import Optimized, optimize
from kernelblaster.records import Candidate, Evaluation, Task
from kernelblaster.sessions.settings import Search
from kernelblaster.store.history import History
from kernelblaster.store.run import STEERING, create_run, open_run
from kernelblaster.store.steering import (
    ForbidTechnique,
    PinTechnique,
    ReleaseTechnique,
    SetBudget,
    SteeringAction,
    StopSearch,
    append_command,
)
from tests.search.world import World, task_named


@dataclass
class Steered(World):
    """Asks for something of its own search after so many candidates, by `asks`."""

    asks: dict[int, SteeringAction] = field(default_factory=dict)
    folder: Path = Path()

    def evaluate_many(self, jobs: Sequence[tuple[Task, Candidate]]) -> Iterator[Evaluation]:
        for evaluation in super().evaluate_many(jobs):
            yield evaluation
            action = self.asks.pop(len(self.judged), None)
            if action is not None:
                append_command(self.folder, action, "test")


def search(
    root: Path, world: World, kb: KnowledgeBase | None = None, name: str | None = None, **fields: Any
) -> tuple[Optimized, str]:
    """A new search, or the one `name` continued; with the run's name."""
    wanted = Search.model_validate({"evaluations": 12, "rollouts": 1, "choices": 1, "iterations": 4} | fields)
    opened = create_run(root) if name is None else open_run(root, name, writing=True)
    with opened as run:
        if isinstance(world, Steered):
            world.folder = run.folder
        knowledge = kb or KnowledgeBase("sqlite://")
        return optimize(task_named("t"), world, knowledge, run, wanted, world), run.name  # type: ignore[arg-type]


def test_a_stop_ends_the_search_before_its_next_candidate_and_it_can_be_resumed(tmp_path: Path) -> None:
    kb, whole = KnowledgeBase("sqlite://"), World()
    expected, _ = search(tmp_path / "whole", whole)
    world = Steered(asks={5: StopSearch()})
    found, name = search(tmp_path, world, kb)
    assert found.stopped and "person (test)" in found.stopped and len(world.judged) == 5
    with open_run(tmp_path, name) as run:
        assert run.events[-1].kind == "stopped" and not History(run).finished
    rest = World()
    found, _ = search(tmp_path, rest, kb, name)
    assert found.stopped is None, "a stop is obeyed once"
    assert world.judged + rest.judged == whole.judged
    assert found.candidate == expected.candidate


def test_a_stop_from_before_the_run_was_opened_does_not_count(tmp_path: Path) -> None:
    kb = KnowledgeBase("sqlite://")
    _, name = search(tmp_path, World(), kb, evaluations=3)
    append_command(tmp_path / name, StopSearch(), "test")
    append_command(tmp_path / name, SetBudget(evaluations=8), "test")
    world = World()
    found, _ = search(tmp_path, world, kb, name, evaluations=3)
    assert found.stopped is None and len(world.judged) == 5


def test_a_stop_before_anything_is_correct_says_so(tmp_path: Path) -> None:
    world: Any = World()
    with pytest.raises(SearchStopped, match="person"), create_run(tmp_path) as run:
        append_command(run.folder, StopSearch(), "test")
        optimize(task_named("t"), world, KnowledgeBase("sqlite://"), run, Search(), world)
    assert world.judged == []


def test_a_budget_is_raised_while_the_search_runs(tmp_path: Path) -> None:
    world = Steered(asks={3: SetBudget(evaluations=9)})
    search(tmp_path, world, evaluations=6)
    assert len(world.judged) == 9


def test_a_budget_can_be_lowered_too(tmp_path: Path) -> None:
    world = Steered(asks={3: SetBudget(evaluations=4)})
    search(tmp_path, world)
    assert len(world.judged) == 4


def test_device_time_can_be_limited_later(tmp_path: Path) -> None:
    world = Steered(asks={3: SetBudget(gpu_seconds=10.0)}, device_seconds=2.0)
    search(tmp_path, world)
    assert len(world.judged) == 5


@pytest.mark.parametrize("limit", [4, 5, 6, 7, 8])
@pytest.mark.parametrize("choices", [1, 3])
def test_a_search_that_ended_goes_on_with_a_larger_budget_and_ends_again(
    tmp_path: Path, limit: int, choices: int
) -> None:
    kb, first = KnowledgeBase("sqlite://"), World()
    fields = {"evaluations": limit, "choices": choices, "rollouts": 2, "iterations": 9}
    _, name = search(tmp_path, first, kb, **fields)
    with open_run(tmp_path, name) as run:
        assert History(run).finished
        assert run.events[-1].data["ended"] == "the budget is spent"
    append_command(tmp_path / name, SetBudget(evaluations=limit + 4), "test")
    second = World()
    found, _ = search(tmp_path, second, kb, name, **fields)
    assert len(second.judged) == 4 and not set(first.judged) & set(second.judged)
    with open_run(tmp_path, name) as run:
        assert History(run).finished and [e.kind for e in run.events].count("finished") == 2
        steps = History(run).steps
    third = World()
    again, _ = search(tmp_path, third, kb, name, **fields)
    assert third.judged == [] and again.candidate == found.candidate, (
        "continued once more, it repeats nothing"
    )
    assert again.steps == found.steps == steps


def test_what_is_forbidden_is_not_tried_alone_or_in_a_recipe(tmp_path: Path) -> None:
    kb = KnowledgeBase("sqlite://")
    for seed in range(3):
        search(tmp_path / f"{seed}", World(seed), kb, evaluations=24, rollouts=2, choices=2, seed=seed)
    world = Steered(9, asks={1: ForbidTechnique(technique="fuse")})
    search(tmp_path, world, kb, evaluations=24, rollouts=2, choices=2)
    assert len(world.judged) > 5 and not any("fuse" in form for form in world.judged)


def test_what_is_pinned_is_tried_first_whatever_it_promises(tmp_path: Path) -> None:
    world = Steered(asks={1: PinTechnique(technique="shape")})
    found, name = search(tmp_path, world, rollouts=2)
    assert ("shape",) in world.judged[1:3], "though it is known to lose"
    first = [step for step in found.steps if not step.before]
    assert first[0].technique == "shape"
    with open_run(tmp_path, name) as run:
        choice = next(event.data for event in run.events if event.kind == "choice")
    assert choice["options"][0]["pinned"] is True


def test_what_is_released_is_chosen_as_any_other(tmp_path: Path) -> None:
    plain, released = World(), Steered(asks={})
    search(tmp_path / "plain", plain)
    asked: list[SteeringAction] = [
        PinTechnique(technique="shape"),
        ForbidTechnique(technique="fuse"),
        ReleaseTechnique(technique="shape"),
        ReleaseTechnique(technique="fuse"),
    ]
    with create_run(tmp_path) as run:
        for action in asked:
            append_command(run.folder, action, "test")
        wanted = Search(evaluations=12, rollouts=1, choices=1, iterations=4)
        optimize(task_named("t"), released, KnowledgeBase("sqlite://"), run, wanted, released)  # type: ignore[arg-type]
    assert released.judged == plain.judged


def test_a_search_that_was_killed_after_it_was_steered_ends_as_if_it_had_not_been(tmp_path: Path) -> None:
    """Killed after every single candidate; commands are taken at the same points."""
    asks: dict[int, SteeringAction] = {
        3: PinTechnique(technique="tile"),
        6: ForbidTechnique(technique="vector"),
        8: SetBudget(evaluations=16),
    }
    whole = Steered(asks=dict(asks))
    search(tmp_path / "whole", whole, rollouts=2, choices=2)

    @dataclass
    class Killed(Steered):
        def evaluate_many(self, jobs: Sequence[tuple[Task, Candidate]]) -> Iterator[Evaluation]:
            for number, evaluation in enumerate(super().evaluate_many(jobs)):
                if number:
                    raise KeyboardInterrupt
                yield evaluation

    kb, everything, name = KnowledgeBase("sqlite://"), [], None
    with create_run(tmp_path / "cut") as run:
        name = run.name
    before = 0
    for _ in range(40):
        world = Killed(asks={at - before: action for at, action in asks.items() if at > before})
        try:
            search(tmp_path / "cut", world, kb, name, rollouts=2, choices=2)
            everything += world.judged
            break
        except KeyboardInterrupt:
            kept = world.judged[:-1]
            everything += kept
            before += len(kept)
    assert everything == whole.judged and len(whole.judged) == 16


def test_lines_that_are_no_commands_disturb_nothing(tmp_path: Path) -> None:
    plain, other = World(), Steered()
    search(tmp_path / "plain", plain)
    with create_run(tmp_path) as run:
        (run.folder / STEERING).write_bytes(
            b'{"kind": "stop"}\n\xff\xfe\n\n{"id": "0123456789abcdef", "at": 1'
        )
        wanted = Search(evaluations=12, rollouts=1, choices=1, iterations=4)
        optimize(task_named("t"), other, KnowledgeBase("sqlite://"), run, wanted, other)  # type: ignore[arg-type]
    assert other.judged == plain.judged
