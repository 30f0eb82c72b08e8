"""The emulator's model says what a GPU measures first, where the budget does not suffice for everything."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kernelblaster.judge.timing import conclude
from kernelblaster.records import Candidate, Evaluation, Task
from kernelblaster.records.evaluation import Timing
from kernelblaster.records.outcome import Speedup
from kernelblaster.sessions.judging import Judging
from kernelblaster.sessions.ranking import Ranking, ranking_in, ranking_of
from kernelblaster.sessions.settings import Search
from kernelblaster.store.run import create_run, open_run

TASK: Any = None
US = {"a": 40.0, "b": 30.0, "c": 20.0, "d": 10.0, "first": 100.0}  # measured
MODELLED = {"a": 4.0, "b": 1.0, "c": 2.0, "d": None}


class Measuring:
    """A judge that measures what US says, and models what MODELLED says."""

    def __init__(self, *, modelled: bool = False) -> None:
        self.device = SimpleNamespace(modelled=modelled)
        self.estimated: list[str] = []
        self.judged: list[str] = []

    def estimate(self, task: Task, candidates: Sequence[Candidate]) -> list[float | None]:
        self.estimated += [candidate.source for candidate in candidates]
        return [MODELLED[candidate.source] for candidate in candidates]

    def confirmed(self, task: Task, candidate: Candidate, evaluation: Evaluation) -> Evaluation:
        return evaluation

    def evaluate_many(self, jobs: Sequence[tuple[Task, Candidate]]) -> Iterator[Evaluation]:
        for _, candidate in jobs:
            self.judged.append(candidate.source)
            us = US[candidate.source]
            speedup = Speedup(estimate=100 / us, low=100 / us, high=100 / us, confidence=0.99)
            timing = Timing(
                baseline="eager", baseline_us=100, candidate_us=us, speedup=speedup, samples=1,
                candidate_wall_us=None, candidate_activity_us=None, floor_us=1, seconds=0,
                modelled=self.device.modelled,
            )  # fmt: skip
            about = {"task": "t", "candidate": candidate.digest, "device": "GPU", "seconds": 0}
            yield Evaluation(**about, outcome=conclude(speedup), timing=timing)  # type: ignore[arg-type]


def batch(judging: Judging, sources: str, key: str = "0/0") -> list[Evaluation | None]:
    return judging.judge_within_budget(key, [Candidate(source=source) for source in sources])


def test_the_promising_ones_are_measured_first(tmp_path: Path) -> None:
    judge: Any = Measuring()
    with create_run(tmp_path) as run:
        judging = Judging(TASK, judge, run, Search(evaluations=3))
        judging.judge(Candidate(source="first"))
        evaluations = batch(judging, "abcd")
        assert judge.judged == ["first", "b", "c"]
        assert [found is not None for found in evaluations] == [False, True, True, False]
        assert judging.budget.spent
        assert ranking_in(run) == Ranking(0, 1)
        name = run.name
    with open_run(tmp_path, name, writing=True) as run:
        again: Any = Measuring()
        judging = Judging(TASK, again, run, Search(evaluations=3))
        judging.judge(Candidate(source="first"))
        assert [found is not None for found in batch(judging, "abcd")] == [False, True, True, False]
        assert again.judged == again.estimated == []


def test_what_cannot_be_modelled_keeps_its_place(tmp_path: Path) -> None:
    judge: Any = Measuring()
    with create_run(tmp_path) as run:
        judging = Judging(TASK, judge, run, Search(evaluations=3))
        judging.judge(Candidate(source="first"))
        batch(judging, "adbc")
    assert judge.judged == ["first", "b", "d"]


@pytest.mark.parametrize(("search", "modelled"), [({"ranked": False}, False), ({}, True)])
def test_nothing_is_ranked_where_it_is_not_wanted(
    tmp_path: Path, search: dict[str, Any], modelled: bool
) -> None:
    judge: Any = Measuring(modelled=modelled)
    with create_run(tmp_path) as run:
        judging = Judging(TASK, judge, run, Search(evaluations=3, **search))
        judging.judge(Candidate(source="first"))
        batch(judging, "abcd")
    assert judge.judged == ["first", "a", "b"] and judge.estimated == []


def test_where_all_are_measured_none_is_modelled(tmp_path: Path) -> None:
    judge: Any = Measuring()
    with create_run(tmp_path) as run:
        judging = Judging(TASK, judge, run, Search(evaluations=9))
        judging.judge(Candidate(source="first"))
        batch(judging, "abcd")
    assert judge.judged == ["first", "a", "b", "c", "d"] and judge.estimated == []


def test_the_share_of_right_rankings() -> None:
    assert ranking_of({"a": 4.0, "b": 3.0, "c": 1.0, "d": None}, US) == Ranking(3, 3)
    assert ranking_of({"a": 4.0, "b": 1.0, "c": 2.0}, US) == Ranking(2, 3)
    assert ranking_of({"a": 4.0, "b": 3.0}, {"a": 10.0, "b": 10.05}) == Ranking(0, 0), "as good as equal"
    assert str(Ranking()) == ""
    assert str(Ranking(31, 40)) == "the model ranked 78% of 40 pairs of candidates right"
