"""The strategy `minimal`: the model rewrites the whole source again and again. There are no roles,
performance states or memory; the model sees the whole profile."""

from dataclasses import dataclass

from kernelblaster.errors import KernelBlasterError
from kernelblaster.policies.llm.feedback import feedback
from kernelblaster.policies.llm.plain_rewriter import Draft, rewrite_plainly
from kernelblaster.policies.llm.policy import MixedPolicy
from kernelblaster.records import Candidate, Evaluation, Profile, Step, StepId, Task
from kernelblaster.records.outcome import CORRECT
from kernelblaster.records.step import Gained, compare
from kernelblaster.search.first_candidate import not_correct
from kernelblaster.search.strategy import Best
from kernelblaster.sessions.log import Trial
from kernelblaster.sessions.session import Session

TECHNIQUE = "plain_rewrite"


@dataclass
class _Rollout:
    """A rollout (a chain of rewrites): its fastest candidate so far, and the number of steps since the last
    gain."""

    number: int
    best: Best
    fruitless: int = 0


class PlainRewrites:
    """A search (in `session`) in which each step of a rollout is one rewrite of its candidate by the language
    model of `policy`. A rewrite that is not correct is corrected by the model up to `Search.retries` times.
    The rollout continues from the rewrite if that is faster, else from where it was. Each iteration begins at
    the fastest candidate of the whole search."""

    def __init__(self, policy: MixedPolicy, session: Session) -> None:
        self._policy = policy
        self._session = session
        self._search = session.search
        self.steps: list[Step] = []

    def run(self, task: Task) -> Best:
        """Searches for a faster candidate for `task` until all iterations are done, the budget is spent, or
        the best time is near the floor (the least that the GPU's bandwidth and peak rates allow). Returns the
        fastest correct candidate. Raises KernelBlasterError if the first candidate is not correct."""
        candidate = self._policy.initial(task).candidate
        best = Best(candidate, self._session.judging.judge(candidate))
        if not isinstance(best.evaluation.outcome, CORRECT):
            raise KernelBlasterError(not_correct(task, candidate, best.evaluation.outcome))
        for iteration in range(self._search.iterations):
            self._session.steer(f"iteration {iteration}")
            if iteration and self._done(best):
                break
            self._session.begin_iteration(iteration)
            rollouts = [_Rollout(n, best) for n in range(self._search.rollouts)]
            for number in range(self._search.steps):
                for rollout in rollouts:
                    if rollout.fruitless < self._search.patience and not self._done(best):
                        self._step(rollout, StepId(iteration, rollout.number, number))
                        best = max(best, rollout.best, key=_speedup)
        return best

    def _done(self, best: Best) -> bool:
        judging = self._session.judging
        return judging.budget.spent or judging.near_floor(best.evaluation)

    def _step(self, rollout: _Rollout, at: StepId) -> None:
        """One step of a rollout (a chain of rewrites): the model rewrites its best candidate, and corrects
        the result up to `retries` times until it is correct."""
        self._session.steer(str(at))
        parent, said, tried = rollout.best, "", rollout.best.candidate
        rollout.fruitless += 1
        for retry in range(self._search.retries + 1):
            step = at.retried(retry)
            profile = None if said else self._profile(parent)
            draft = Draft(str(step), tried, profile, said, seed=rollout.number + rollout.fruitless)
            source = rewrite_plainly(self._policy.scene, draft)
            if source is None or source == parent.candidate.source:
                return
            tried = Candidate(source=source, origin=f"llm: {TECHNIQUE}", parent=parent.candidate.digest)
            judged = self._session.tell(str(step), [Trial(step, "", TECHNIQUE, 1.0, tried)])[0]
            if judged is None:
                return
            self._learn(rollout, step, tried, judged)
            if isinstance(judged.outcome, CORRECT):
                return
            said = feedback(judged, source)

    def _learn(self, rollout: _Rollout, at: StepId, tried: Candidate, judged: Evaluation) -> None:
        """Records step `at` of a rollout (a chain of rewrites): its best candidate was rewritten to `tried`,
        and `judged` is the judge's evaluation of that. If it is correct and faster, the rollout continues
        from it."""
        parent = rollout.best
        result = compare(judged, parent.evaluation)
        taken = isinstance(result, Gained) and result.log_speedup > 0
        if taken:
            rollout.best = Best(tried, judged, (*parent.applied, TECHNIQUE))
            rollout.fruitless = 0
        step = Step(
            id=at,
            state="",
            technique=TECHNIQUE,
            predicted=1.0,
            result=result,
            taken=taken,
            before=parent.applied,
            parent=parent.candidate.code,
            child=tried.code,
        )
        self._session.learn(str(at), [step])
        self.steps.append(step)

    def _profile(self, best: Best) -> Profile | None:
        """The profile of the best candidate of a rollout (a chain of rewrites), made when first asked for;
        None if profiling failed."""
        return self._session.judging.profile([best.candidate])[0]


def _speedup(best: Best) -> float:
    assert isinstance(best.evaluation.outcome, CORRECT)
    return best.evaluation.outcome.speedup.estimate
