"""What is recorded of a verdict, on whichever device it was reached."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from kernelblaster.judge.timing import conclude
from kernelblaster.records import Candidate, Evaluation, Task
from kernelblaster.records.evaluation import Timing
from kernelblaster.records.outcome import Speedup
from kernelblaster.sessions.judging import Judging
from kernelblaster.sessions.settings import Search
from kernelblaster.store.run import create_run

TASK: Any = None
MEASURED = {"first": (100.0, 2.0), "slower elsewhere": (150.0, 3.0), "no gain": (140.0, 1.5)}
"""Microseconds and speedup of each candidate: the second one was timed by a slower GPU, beside its own
baseline."""


class Confirming:
    """Notes which candidates it is asked to confirm."""

    def __init__(self) -> None:
        self.confirming: list[str] = []

    def confirmed(self, task: Task, candidate: Candidate, evaluation: Evaluation) -> Evaluation:
        self.confirming.append(candidate.source)
        return evaluation

    def evaluate_many(self, jobs: Sequence[tuple[Task, Candidate]]) -> Iterator[Evaluation]:
        for _, candidate in jobs:
            us, estimate = MEASURED[candidate.source]
            speedup = Speedup(estimate=estimate, low=estimate, high=estimate, confidence=0.99)
            timing = Timing(
                baseline="eager", baseline_us=us * estimate, candidate_us=us, speedup=speedup, samples=1,
                candidate_wall_us=None, candidate_activity_us=None, floor_us=1, seconds=0,
            )  # fmt: skip
            about = {"task": "t", "candidate": candidate.digest, "device": "GPU", "seconds": 0}
            yield Evaluation(**about, outcome=conclude(speedup), timing=timing)  # type: ignore[arg-type]


def test_what_is_best_so_far_is_confirmed_whichever_gpu_timed_it(tmp_path: Path) -> None:
    judge: Any = Confirming()
    with create_run(tmp_path) as run:
        judging = Judging(TASK, judge, run, Search())
        for source in MEASURED:
            judging.judge(Candidate(source=source))
    assert judge.confirming == ["first", "slower elsewhere"]
