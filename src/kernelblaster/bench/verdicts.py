"""Verdicts that are kept, so that what several searches ask for is judged once."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from kernelblaster.judge.judge import Judge
from kernelblaster.judge.shared import SharedJudge
from kernelblaster.records import Candidate, Evaluation, Fitness, Floor, Profile, Task
from kernelblaster.records.outcome import Outcome
from kernelblaster.records.profile import Depth


class KeptVerdicts:
    """A judge that keeps its evaluations in a folder, by device and task, and gives them again for the
    same code. For studies, where many searches of one task are compared: all of them see the same verdict
    on the same candidate."""

    def __init__(self, judge: Judge | SharedJudge, folder: Path) -> None:
        self._judge = judge
        self._folder = folder
        self.options, self.device = judge.options, judge.device

    def prepare(self, task: Task) -> tuple[Fitness, Floor]:
        return self._judge.prepare(task)

    def profile(
        self, task: Task, candidates: Sequence[Candidate], *, depth: Depth = "detailed"
    ) -> list[Profile | Outcome]:
        return self._judge.profile(task, candidates, depth=depth)

    def evaluate_many(self, jobs: Sequence[tuple[Task, Candidate]]) -> Iterator[Evaluation]:
        missing = [(task, one) for task, one in jobs if not self._path(task, one).is_file()]
        judged = self._judge.evaluate_many(missing) if missing else iter(())
        for (task, candidate), evaluation in zip(missing, judged, strict=True):
            self._keep(self._path(task, candidate), evaluation)
        for task, candidate in jobs:
            kept = Evaluation.model_validate_json(self._path(task, candidate).read_text())
            yield kept.model_copy(update={"task": task.name, "candidate": candidate.digest})

    def _path(self, task: Task, candidate: Candidate) -> Path:
        return self._folder / self.device.spec.name / task.digest / f"{candidate.code}.json"

    def _keep(self, path: Path, evaluation: Evaluation) -> None:
        """Whole or not at all: other processes may look at the same time."""
        path.parent.mkdir(parents=True, exist_ok=True)
        scratch = path.with_suffix(f".{os.getpid()}")
        scratch.write_text(evaluation.model_dump_json())
        scratch.replace(path)
