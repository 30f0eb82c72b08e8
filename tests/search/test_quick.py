"""The quick way: one recipe, written whole, and judged once."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import pytest

import kernelblaster as kb
from kernelblaster.devices.specs import gpu_specs
from kernelblaster.errors import KernelBlasterError
from kernelblaster.judge.timing import conclude
from kernelblaster.knowledge import KnowledgeBase
from kernelblaster.optimize import Optimized, optimize
from kernelblaster.policies.expert.schedules.schedule import Family
from kernelblaster.policies.expert.technique_order import ORDER
from kernelblaster.policies.expert.usual_recipes import _by_family, usual_recipes
from kernelblaster.records import Candidate, Evaluation, Floor, Incorrect, Task, Timing
from kernelblaster.records.outcome import Speedup
from kernelblaster.records.recipe import Recipe
from kernelblaster.sessions.settings import Search
from kernelblaster.store.run import create_run
from kernelblaster.tasks.catalog import load_task

FILE = """
import torch, torch.nn as nn
class Model(nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=1)
def get_inputs():
    return [torch.randn(256, 393216)]
def get_init_inputs():
    return []
"""


class Judge:
    """Implements what a search asks of a judge: candidates that need the features in `wrong` are incorrect,
    and times come from `us`, by the number of the candidate that is estimated."""

    def __init__(self, us: Sequence[float | None] = (), wrong: str = "nothing") -> None:
        self.device = SimpleNamespace(spec=gpu_specs()["h200"], modelled=False)
        self.judged: list[Candidate] = []
        self.estimated: list[Candidate] = []
        self._us = us
        self._wrong = wrong

    def prepare(self, task: Task) -> tuple[None, Floor]:
        return None, Floor(bytes=1, certain_bytes=1, operations=0)

    def estimate(self, task: Task, candidates: Sequence[Candidate]) -> list[float | None]:
        self.estimated += candidates
        return [self._us[place] if place < len(self._us) else None for place, _ in enumerate(candidates)]

    def confirmed(self, task: Task, candidate: Candidate, evaluation: Evaluation) -> Evaluation:
        return evaluation

    def evaluate_many(self, jobs: Sequence[tuple[Task, Candidate]]) -> Iterator[Evaluation]:
        for _, candidate in jobs:
            self.judged.append(candidate)
            about: dict[str, Any] = {
                "task": "t",
                "candidate": candidate.digest,
                "device": "GPU",
                "seconds": 0,
            }
            if self._wrong in candidate.origin:
                yield Evaluation(**about, outcome=Incorrect(reason="wrong", evidence=""))
                continue
            speedup = Speedup(estimate=2.0, low=2.0, high=2.0, confidence=0.99)
            timing = Timing(
                baseline="eager", baseline_us=100, candidate_us=50, speedup=speedup, samples=1,
                candidate_wall_us=None, candidate_activity_us=None, floor_us=1, seconds=0,
            )  # fmt: skip
            yield Evaluation(**about, outcome=conclude(speedup), timing=timing)


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Task:
    path = tmp_path_factory.mktemp("task") / "rows.py"
    path.write_text(FILE)
    return load_task(str(path))


def quickly(task: Task, judge: Judge, folder: Path) -> Optimized:
    with create_run(folder / "runs") as run, KnowledgeBase(folder / "kb.db") as knowledge:
        return optimize(task, judge, knowledge, run, Search(quick=True))  # type: ignore[arg-type]


def test_the_best_recipe_is_judged_once(task: Task, tmp_path: Path) -> None:
    judge = Judge(us=[20.0, 30.0])
    found = quickly(task, judge, tmp_path)
    assert [one.digest for one in judge.judged] == [found.candidate.digest]
    assert {"warp_shuffle_reduction", "rows_across_blocks", "vectorized_memory_access"} <= set(found.applied)
    assert found.first == found.evaluation and found.steps == []


def test_the_model_chooses_among_recipes(task: Task, tmp_path: Path) -> None:
    judge = Judge(us=[30.0, 20.0])
    found = quickly(task, judge, tmp_path)
    assert len(judge.estimated) == 3 and judge.judged == [judge.estimated[1]]
    assert "rows_across_blocks" not in found.applied


def test_what_cannot_be_modelled_is_taken_by_its_record(task: Task, tmp_path: Path) -> None:
    judge = Judge(us=[None, 1.0])
    assert "rows_across_blocks" in quickly(task, judge, tmp_path).applied
    assert len(judge.judged) == 1


def test_the_next_one_is_judged_if_it_is_wrong(task: Task, tmp_path: Path) -> None:
    judge = Judge(us=[1.0, 2.0], wrong="rows_across_blocks")
    found = quickly(task, judge, tmp_path)
    assert len(judge.judged) == 2 and "rows_across_blocks" not in found.applied
    with pytest.raises(KernelBlasterError, match="no recipe gave a correct candidate"):
        quickly(task, Judge(us=[1.0, 2.0], wrong="expert"), tmp_path / "none")


def test_it_asks_no_model(task: Task, tmp_path: Path) -> None:
    with pytest.raises(KernelBlasterError, match="asks no model"):
        kb.optimize(task.path, quick=True, model="anthropic:any", runs=tmp_path)
    assert not list(tmp_path.iterdir())


def test_usual_recipes_name_what_there_is() -> None:
    assert set(_by_family()) == set(get_args(Family))
    for recipes in _by_family().values():
        for text in recipes:
            recipe = Recipe.parse(text)
            assert recipe is not None and str(recipe) == text and set(recipe.techniques) <= set(ORDER)
    both = usual_recipes(["pointwise", "row_reduction", "pointwise"])
    assert both[:2] == [_by_family()["pointwise"][0], _by_family()["row_reduction"][0]]
    assert len(both) == len(set(both)) == 5 and usual_recipes([]) == usual_recipes(["unknown"]) == []
