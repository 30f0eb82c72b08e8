"""A judge that keeps its evaluations, so that a candidate that turns up in several searches is judged
once."""

from collections.abc import Iterator, Sequence

from kernelblaster.judge.protocol import Judge
from kernelblaster.records import Candidate, Evaluation, Fitness, Floor, Profile, Task
from kernelblaster.records.outcome import Abandoned, Outcome
from kernelblaster.records.profile import Depth
from kernelblaster.store.verdicts import VerdictKey, Verdicts


class CachedJudge:
    """A `Judge` for studies that compare many searches of one task. It stores the evaluations that `judge`
    makes in `verdicts`, by GPU, task and the candidate's code; for a candidate that is already there it
    returns the stored evaluation instead of judging again. So all searches see the same result for the same
    candidate. Profiles are not stored."""

    def __init__(self, judge: Judge, verdicts: Verdicts) -> None:
        self._judge = judge
        self._verdicts = verdicts
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
        """Returns the evaluations in the order of `jobs`. Candidates without a stored evaluation are judged
        first, in one batch, and their evaluations stored. An evaluation with the outcome Abandoned is not
        stored, since the judging process was lost."""
        keys = [self._key(task, candidate) for task, candidate in jobs]
        known = {key: self._verdicts.get(key) for key in keys}
        missing = {key: job for key, job in zip(keys, jobs, strict=True) if known[key] is None}
        judged = self._judge.evaluate_many(list(missing.values())) if missing else iter(())
        for key, evaluation in zip(missing, judged, strict=True):
            lost = isinstance(evaluation.outcome, Abandoned)
            known[key] = evaluation if lost else self._verdicts.keep(key, evaluation)
        for key, (task, candidate) in zip(keys, jobs, strict=True):
            kept = known[key]
            assert kept is not None
            yield kept.model_copy(update={"task": task.name, "candidate": candidate.digest})

    def _key(self, task: Task, candidate: Candidate) -> VerdictKey:
        return VerdictKey(gpu=self.device.spec.name, task=task.digest, code=candidate.code)
