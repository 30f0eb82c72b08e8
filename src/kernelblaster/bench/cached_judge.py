"""A judge that caches verdicts on disk, so that a candidate of several searches is judged once."""

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
    """A `Judge` that stores the evaluations of another one as files in `folder`, by GPU, task and candidate
    code, and returns a stored one instead of judging again. For studies that compare many searches of one
    task: all see the same verdict on the same candidate. Profiles are not cached."""

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

    def estimate(self, task: Task, candidates: Sequence[Candidate]) -> list[float | None]:
        return self._judge.estimate(task, candidates)

    def evaluate_many(self, jobs: Sequence[tuple[Task, Candidate]]) -> Iterator[Evaluation]:
        """The evaluations in the order of `jobs`; those that are not stored are judged together first, then
        stored."""
        paths = [self._path(task, candidate) for task, candidate in jobs]
        known = {path: _stored(path) for path in paths}
        missing = {path: job for path, job in zip(paths, jobs, strict=True) if known[path] is None}
        judged = self._judge.evaluate_many(list(missing.values())) if missing else iter(())
        for path, evaluation in zip(missing, judged, strict=True):
            known[path] = self._store(path, evaluation)
        for path, (task, candidate) in zip(paths, jobs, strict=True):
            kept = known[path]
            assert kept is not None
            yield kept.model_copy(update={"task": task.name, "candidate": candidate.digest})

    def _path(self, task: Task, candidate: Candidate) -> Path:
        return self._folder / self.device.spec.name / task.digest / f"{candidate.code}.json"

    def _store(self, path: Path, evaluation: Evaluation) -> Evaluation:
        """Store an evaluation and return the one that counts: an earlier one of another process if there is
        one."""
        text = evaluation.model_dump_json()
        earlier = _stored(path)
        if earlier is not None:
            return earlier
        write_whole(path, f'{{"sum":"{_sum(text)}","evaluation":{text}}}\n')
        return Evaluation.model_validate_json(text)


def _stored(path: Path) -> Evaluation | None:
    """The stored evaluation; None if the file is missing or damaged, so that the candidate must be judged
    again."""
    try:
        match = _WRITTEN.fullmatch(path.read_text())
    except (OSError, UnicodeDecodeError):
        return None
    return Evaluation.model_validate_json(match[2]) if match and _sum(match[2]) == match[1] else None


def _sum(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
