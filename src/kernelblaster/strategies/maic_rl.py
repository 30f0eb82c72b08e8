"""MAIC-RL: rollouts against a frozen knowledge base, whose evidence grows from every step of them."""

from dataclasses import dataclass
from math import exp
from random import Random

from kernelblaster.errors import KernelBlasterError
from kernelblaster.knowledge.content import Content
from kernelblaster.knowledge.select import weighted_choice
from kernelblaster.policies.policy import Attempt, Policy
from kernelblaster.records import Evaluation, Task
from kernelblaster.records.outcome import CORRECT
from kernelblaster.strategies.search import BudgetSpent, Search, Session, Step, gain

WORTH_TAKING = 0.01  # log speedup: less is within the judge's resolution
PATIENCE = 2  # steps without a gain before a rollout ends


@dataclass(frozen=True)
class Place:
    """Where a rollout stands: a correct candidate, and how it got there."""

    attempt: Attempt
    evaluation: Evaluation
    applied: tuple[str, ...] = ()


class MaicRl:
    """One search for one task."""

    def __init__(self, policy: Policy, session: Session, search: Search) -> None:
        self._policy = policy
        self._session = session
        self._search = search
        self._best: Place | None = None
        self.steps: list[Step] = []

    def run(self, task: Task) -> Place:
        """The best candidate that was found."""
        start = self._best = self._start(task)
        try:
            for iteration in range(self._search.iterations):
                theta = self._session.theta(iteration)
                for rollout in range(self._search.rollouts):
                    self._rollout(self._best if rollout % 2 else start, theta, f"{iteration}/{rollout}")
                    if self._session.good_enough(self._best.evaluation):
                        return self._best
        except BudgetSpent:
            pass
        return self._best

    def _start(self, task: Task) -> Place:
        attempt = self._policy.initial(task)
        evaluation = self._session.evaluate(attempt.candidate)
        if not isinstance(evaluation.outcome, CORRECT):
            reason = getattr(evaluation.outcome, "reason", "")
            raise KernelBlasterError(
                f"{task.name}: the first candidate is not correct ({evaluation.outcome.kind}: {reason})."
            )
        return Place(attempt, evaluation)

    def _rollout(self, place: Place, theta: Content, key: str) -> None:
        assert self._best is not None
        patience = PATIENCE
        for number in range(self._search.steps):
            found = self._step(place, theta, f"{key}/{number}")
            if found is None:
                break
            patience = PATIENCE if found is not place else patience - 1
            place = found
            self._best = max(self._best, place, key=_speedup)
            if not patience or self._session.good_enough(place.evaluation):
                break

    def _step(self, place: Place, theta: Content, key: str) -> Place | None:
        """The best of several techniques, the same place if none of them pays, None if none applies."""
        chosen = self._session.once("choice", key, lambda: self._choose(place, theta, key))
        if not chosen["options"]:
            return None
        found = place
        for number, option in enumerate(chosen["options"]):
            moves = self._policy.moves(place.attempt, option["technique"])
            attempt = moves[option["move"]]
            evaluation = self._session.evaluate(attempt.candidate)
            result = gain(evaluation, place.evaluation)
            pays = isinstance(result, float) and result > WORTH_TAKING
            reached = Place(attempt, evaluation, (*place.applied, option["technique"]))
            if pays and _speedup(reached) > _speedup(found):
                found = reached
            step = Step(
                f"{key}/{number}", chosen["state"], option["technique"], option["predicted"], result, pays
            )
            self.steps.append(step)
            self._session.learn(step, place.applied, place.attempt.candidate, attempt.candidate)
        return found

    def _choose(self, place: Place, theta: Content, key: str) -> dict[str, object]:
        """The state of a place, and the techniques to try in it, drawn by their predicted gain."""
        profile = place.evaluation.profile
        state = self._policy.state(profile, self._session.floor_bytes) if profile else None
        if state is None:
            return {"state": "", "options": []}
        moves = {t: len(self._policy.moves(place.attempt, t)) for t in self._policy.techniques}
        possible = tuple(t for t, count in moves.items() if count)
        name, known = self._session.options(theta, state, possible, place.applied)
        random = Random(f"{self._search.seed}/{key}")
        drawn = weighted_choice(known, self._search.choices, random)
        options = [
            {
                "technique": s.optimization.technique,
                "predicted": exp(s.prediction.mean),
                "move": random.randrange(moves[s.optimization.technique]),
            }
            for s in drawn
        ]
        return {"state": name, "options": options}


def _speedup(place: Place) -> float:
    assert isinstance(place.evaluation.outcome, CORRECT)
    return place.evaluation.outcome.speedup.estimate
