"""The best candidate of a run, judged again: what was recorded is compared with, never trusted."""

from pathlib import Path
from typing import Any

import pytest

from kernelblaster import cache
from kernelblaster.judge.timing import conclude
from kernelblaster.records import Candidate, Evaluation, Incorrect, Task
from kernelblaster.records.outcome import Speedup
from kernelblaster.store.run import Run, create_run
from kernelblaster.store.subject import keep_task
from kernelblaster.tasks.catalog import load_file
from kernelblaster.verify import verify
from tests.store.test_history import TASK, judge


class Again:
    """A judge whose answer is known; it notes what it was asked and where results would be cached."""

    def __init__(self, outcome: Any, device: str = "d") -> None:
        self._outcome, self._device = outcome, device
        self.asked: list[tuple[str, str]] = []
        self.places: list[Path] = []

    def evaluate(self, task: Task, candidate: Candidate) -> Evaluation:
        self.asked.append((task.name, candidate.source))
        self.places.append(cache.entry("candidate", "0" * 32))
        return Evaluation(
            task=task.name, candidate=candidate.digest, device=self._device, outcome=self._outcome, seconds=0
        )


@pytest.fixture
def run(tmp_path: Path):  # type: ignore[no-untyped-def]
    (tmp_path / "task.py").write_text(TASK)
    with create_run(tmp_path / "runs") as opened:
        keep_task(opened, load_file("a task", tmp_path / "task.py"))
        judge(opened, "first", 0.5)
        judge(opened, "best", 0.8)
        yield opened


def speedup(low: float, high: float) -> Any:
    return conclude(Speedup(estimate=(low + high) / 2, low=low, high=high, confidence=0.99))


@pytest.mark.parametrize(
    ("outcome", "device", "correct", "holds"),
    [
        (speedup(0.79, 0.83), "d", True, True),
        (speedup(0.808, 0.83), "d", True, True),  # apart by less than the timer can tell
        (speedup(0.85, 0.90), "d", True, False),
        (speedup(0.50, 0.55), "another", True, None),
        (Incorrect(reason="wrong values", evidence=""), "d", False, None),
    ],
)
def test_the_verdict_holds_or_does_not(
    run: Run, outcome: Any, device: str, correct: bool, holds: bool | None
) -> None:
    again = Again(outcome, device)
    found = verify(run, again)  # type: ignore[arg-type]
    assert again.asked == [("a task", "best")]
    assert (found.correct, found.speedup_holds) == (correct, holds)
    assert found.holds == (correct and holds is not False)


def test_nothing_that_was_compiled_before_is_used(run: Run) -> None:
    usual = cache.entry("candidate", "0" * 32)
    again = Again(speedup(0.79, 0.83))
    verify(run, again)  # type: ignore[arg-type]
    assert again.places[0] != usual and not again.places[0].exists()
    assert cache.entry("candidate", "0" * 32) == usual
