"""Minimal and cycles-only: the model rewrites the whole source again and again, without roles, states or
memory. It is told the profile in full, or nothing but the time."""

from dataclasses import dataclass

from kernelblaster.errors import KernelBlasterError
from kernelblaster.policies.llm.feedback import feedback
from kernelblaster.policies.llm.plain_rewriter import Draft, rewrite_plainly
from kernelblaster.policies.llm.policy import MixedPolicy
from kernelblaster.policies.policy import Attempt
from kernelblaster.records import Candidate, Evaluation, Profile, Step, Task
from kernelblaster.records.outcome import CORRECT
from kernelblaster.strategies.search import Search, Trial, gain
from kernelblaster.strategies.strategy import Found, Reached, Workplace

TECHNIQUE = "plain_rewrite"


@dataclass
class Rollout:
    """Where one stands, and for how many steps it has gained nothing."""

    number: int
    place: Reached
    fruitless: int = 0


class PlainRewrites:
    """Each step of a rollout is one rewrite of where it stands, corrected a few times if it fails; the
    rollout goes on from what is faster. Each iteration begins at the fastest."""

    def __init__(self, policy: MixedPolicy, session: Workplace, search: Search, *, profiled: bool) -> None:
        self._policy = policy
        self._session = session
        self._search = search
        self._profiled = profiled
        self._spent = False
        self.steps: list[Step] = []

    def run(self, task: Task) -> Found:
        attempt = self._policy.initial(task)
        best = Reached(attempt, self._session.first(attempt.candidate))
        if not isinstance(best.evaluation.outcome, CORRECT):
            raise KernelBlasterError(f"{task.name}: the first candidate is not correct.")
        for iteration in range(self._search.iterations):
            self._session.theta(iteration)
            rollouts = [Rollout(n, best) for n in range(self._search.rollouts)]
            for number in range(self._search.steps):
                for rollout in rollouts:
                    if rollout.fruitless < self._search.patience and not self._done(best):
                        self._step(rollout, f"{iteration}/{rollout.number}/{number}")
                        best = max(best, rollout.place, key=_speedup)
            if self._done(best):
                break
        return best

    def _done(self, best: Reached) -> bool:
        return self._spent or self._session.good_enough(best.evaluation)

    def _step(self, rollout: Rollout, place: str) -> None:
        """One rewrite, and as many corrections of it as a search allows retries."""
        parent, said, tried = rollout.place, "", rollout.place.attempt.candidate
        rollout.fruitless += 1
        for retry in range(self._search.retries + 1):
            where = f"{place}/0" + (f".{retry}" if retry else "")
            profile = None if said else self._profile(parent)
            draft = Draft(where, tried, profile, said, seed=rollout.number + rollout.fruitless)
            source = rewrite_plainly(self._policy.scene, draft)
            if source is None or source == parent.attempt.candidate.source:
                return
            tried = Candidate(
                source=source, origin=f"llm: {TECHNIQUE}", parent=parent.attempt.candidate.digest
            )
            judged = self._session.evaluate(where, [Trial(where, "", TECHNIQUE, 1.0, tried)])[0]
            if judged is None:
                self._spent = True
                return
            self._learn(rollout, where, tried, judged)
            if isinstance(judged.outcome, CORRECT):
                return
            said = feedback(judged, source)

    def _learn(self, rollout: Rollout, where: str, tried: Candidate, judged: Evaluation) -> None:
        parent = rollout.place
        result = gain(judged, parent.evaluation)
        taken = isinstance(result, float) and result > 0
        if taken:
            applied = (*parent.applied, TECHNIQUE)
            rollout.place = Reached(Attempt(tried, None), judged, applied)
            rollout.fruitless = 0
        step = Step(
            place=where,
            state="",
            technique=TECHNIQUE,
            predicted=1.0,
            result=result,
            taken=taken,
            before=parent.applied,
            parent=parent.attempt.candidate.code,
            child=tried.code,
        )
        self._session.learn(where, [step])
        self.steps.append(step)

    def _profile(self, place: Reached) -> Profile | None:
        return self._session.profile([place.attempt.candidate])[0] if self._profiled else None


def _speedup(place: Reached) -> float:
    assert isinstance(place.evaluation.outcome, CORRECT)
    return place.evaluation.outcome.speedup.estimate
