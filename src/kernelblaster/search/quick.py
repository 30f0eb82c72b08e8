"""The strategy of `optimize --quick`: the best known recipe for what a task computes is applied, without a
search."""

from collections.abc import Iterator
from itertools import islice

from kernelblaster.errors import KernelBlasterError
from kernelblaster.knowledge.recipes import recipes_for
from kernelblaster.policies.expert.policy import ExpertPolicy
from kernelblaster.policies.expert.usual_recipes import usual_recipes
from kernelblaster.policies.policy import Attempt
from kernelblaster.records import Step, Task
from kernelblaster.records.outcome import CORRECT
from kernelblaster.search.strategy import Best
from kernelblaster.sessions.session import Session

KNOWN = 3  # recipes of the knowledge base for each family that are written
MODELLED = 6  # candidates of which the emulator's model chooses one
JUDGED = 3  # of those, until one is correct


class Quick:
    """The strategy for those who want a result at once (`optimize --quick`). In `session`, `policy` writes
    the first candidate and applies whole recipes (sets of techniques) to it: those that the knowledge base
    has for the families of its kernels, then those of a fixed list. Of the candidates that recipes give, the
    one that the emulator's timing model finds fastest is judged; the next ones only if it is not correct.
    `steps` stays empty, and nothing is learned."""

    def __init__(self, policy: ExpertPolicy, session: Session) -> None:
        self._policy = policy
        self._session = session
        self.steps: list[Step] = []

    def run(self, task: Task) -> Best:
        """Judges up to three candidates (JUDGED) for `task`, one after another, until one is correct, and
        returns that one. Candidates made by recipes come first, in the order of their times by the emulator's
        timing model, the fastest first. Then comes the first candidate, without any recipe. Raises
        KernelBlasterError if none is correct."""
        first = self._policy.initial(task)
        left = self._ordered(list(islice(self._attempts(first), MODELLED)))
        judging = self._session.judging
        for attempt in [*left[: JUDGED - 1], first]:
            evaluation = judging.judge(attempt.candidate)
            if isinstance(evaluation.outcome, CORRECT):
                return Best(attempt.candidate, evaluation, attempt.applied, "one recipe was wanted")
        raise KernelBlasterError(f"{task.name}: no recipe gave a correct candidate; search without --quick.")

    def _attempts(self, first: Attempt) -> Iterator[Attempt]:
        """Yields the candidates that recipes make of the first one, each candidate once: first the recipes
        that the knowledge base has for the families of its kernels, in its order, then those of a fixed
        list."""
        memory, families = self._session.memory, self._policy.families(first)
        content = memory.now()
        known = [
            str(recipe)
            for family in families
            for recipe in recipes_for(content, "", memory.architecture, (), family)[:KNOWN]
        ]
        seen = {first.candidate.code}
        for recipe in dict.fromkeys([*known, *usual_recipes(families)]):
            attempt = next(self._policy.whole(first, recipe), None)
            if attempt is not None and attempt.candidate.code not in seen:
                seen.add(attempt.candidate.code)
                yield attempt

    def _ordered(self, attempts: list[Attempt]) -> list[Attempt]:
        """All the attempts (candidates), sorted from fastest to slowest by the emulator's model of the GPU;
        those that it cannot model come last. The order stays as it is, the most recommended recipe first, if
        the model cannot tell the time of the first one."""
        if len(attempts) < 2:
            return attempts
        times = self._session.judging.modelled_us([attempt.candidate for attempt in attempts])
        if times[0] is None:
            return attempts
        known = {a.candidate.code: us for a, us in zip(attempts, times, strict=True) if us is not None}
        return sorted(attempts, key=lambda one: known.get(one.candidate.code, float("inf")))
