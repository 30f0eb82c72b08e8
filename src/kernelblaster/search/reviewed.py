"""A strategy that runs another one and has a language model review the result before it is returned."""

from kernelblaster.errors import KernelBlasterError
from kernelblaster.policies.llm.policy import MixedPolicy
from kernelblaster.policies.llm.soft_verifier import Review
from kernelblaster.records import Candidate, Step, Task
from kernelblaster.search.strategy import Best, Strategy, path_to
from kernelblaster.sessions.session import Session

REVIEWED = 3  # candidates of a model that are looked at; those that it did not write need no review


class Reviewed:
    """Runs another `strategy` in `session`, and has its result reviewed by `policy`. Only a candidate that a
    language model wrote is reviewed. A language model (as the soft verifier) compares the candidate's
    structure with the reference. If the review rejects the candidate, what the candidate taught is taken back
    from the knowledge base, and the next fastest candidate is reviewed instead; at most three of a model's
    candidates are reviewed (REVIEWED). A candidate that is only flagged is returned; the findings are in the
    run's `review` events."""

    def __init__(self, strategy: Strategy, policy: MixedPolicy, session: Session) -> None:
        self._strategy = strategy
        self._policy = policy
        self._session = session

    @property
    def steps(self) -> list[Step]:
        return self._strategy.steps

    def run(self, task: Task) -> Best:
        """Returns the result of the inner strategy for `task` if it passes review, else the fastest candidate
        that passes. Raises KernelBlasterError if none does."""
        best = self._strategy.run(task)
        if self._passes(best.candidate):
            return best
        left = REVIEWED - 1
        for candidate, evaluation in self._session.judging.ranked():
            if candidate.code == best.candidate.code or (_by_model(candidate) and left == 0):
                continue
            left -= _by_model(candidate)
            if self._passes(candidate):
                return Best(candidate, evaluation, path_to(candidate.code, self.steps))
        raise KernelBlasterError(
            f"{task.name}: every candidate that was looked at was rejected in review; see the run's "
            "`review` events."
        )

    def _passes(self, candidate: Candidate) -> bool:
        """Whether a candidate may be the result: no model wrote it, or its review did not reject it. Reviews
        are recorded; what a rejected one taught is withdrawn from the knowledge base."""
        if not _by_model(candidate):
            return True
        kept = self._session.log.once(
            "review", candidate.code, lambda: _review_record(self._policy.review(candidate))
        )
        if kept["verdict"] != "rejected":
            return True
        self._session.memory.withdraw(candidate.code, self.steps)
        return False


def _by_model(candidate: Candidate) -> bool:
    """Whether a language model wrote the candidate (its `origin` says so), and not the rule-based expert."""
    return candidate.origin.startswith("llm")


def _review_record(review: Review) -> dict[str, object]:
    return {"verdict": review.verdict, "findings": list(review.findings)}
