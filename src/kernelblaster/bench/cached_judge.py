"""Verdicts that are kept, so that what several searches ask for is judged once."""

import hashlib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from kernelblaster.judge.protocol import Judge
from kernelblaster.records import Candidate, Evaluation, Fitness, Floor, Profile, Task
from kernelblaster.records.outcome import Outcome
from kernelblaster.records.profile import Depth
from kernelblaster.store.files import write_whole

_WRITTEN = re.compile(r'\{"sum":"([0-9a-f]{16})","evaluation":(\{.*\})\}\n')


class CachedJudge:
    """A judge that keeps its evaluations in a folder, by device and task, and gives them again for the
    same code. For studies, where many searches of one task are compared: all of them see the same verdict
    on the same candidate."""

    def __init__(self, judge: Judge, folder: Path) -> None:
        self._judge = judge
        self._folder = folder
        self.device = judge.device

    def prepare(self, task: Task) -> tuple[Fitness, Floor]:
        return self._judge.prepare(task)

    def profile(
        self, task: Task, candidates: Sequence[Candidate], *, depth: Depth = "detailed"
    ) -> list[Profile | Outcome]:
        return self._judge.profile(task, candidates, depth=depth)

    def confirmed(self, task: Task, candidate: Candidate, evaluation: Evaluation) -> Evaluation:
        return self._judge.confirmed(task, candidate, evaluation)

    def evaluate_many(self, jobs: Sequence[tuple[Task, Candidate]]) -> Iterator[Evaluation]:
        paths = [self._path(task, candidate) for task, candidate in jobs]
        known = {path: _kept(path) for path in paths}
        missing = {path: job for path, job in zip(paths, jobs, strict=True) if known[path] is None}
        judged = self._judge.evaluate_many(list(missing.values())) if missing else iter(())
        for path, evaluation in zip(missing, judged, strict=True):
            known[path] = self._keep(path, evaluation)
        for path, (task, candidate) in zip(paths, jobs, strict=True):
            kept = known[path]
            assert kept is not None
            yield kept.model_copy(update={"task": task.name, "candidate": candidate.digest})

    def _path(self, task: Task, candidate: Candidate) -> Path:
        return self._folder / self.device.spec.name / task.digest / f"{candidate.code}.json"

    def _keep(self, path: Path, evaluation: Evaluation) -> Evaluation:
        """The verdict that stands: another process may have been quicker."""
        text = evaluation.model_dump_json()
        earlier = _kept(path)
        if earlier is not None:
            return earlier
        write_whole(path, f'{{"sum":"{_sum(text)}","evaluation":{text}}}\n')
        return Evaluation.model_validate_json(text)


def _kept(path: Path) -> Evaluation | None:
    """None too where the file is not what was written: then it is judged again."""
    try:
        found = _WRITTEN.fullmatch(path.read_text())
    except (OSError, UnicodeDecodeError):
        return None
    return Evaluation.model_validate_json(found[2]) if found and _sum(found[2]) == found[1] else None


def _sum(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
