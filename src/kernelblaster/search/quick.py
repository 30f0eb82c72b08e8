"""The quick way to a result: the best known recipe for what a task computes, judged once."""

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
    """A search for those who want a result and not its history: writes the first candidate without having it
    judged, applies to it whole recipes (sets of techniques) that the knowledge base knows for the families of
    its kernels, then those that usually pay there, and has the one judged that the emulator's model finds
    fastest. `steps` stays empty, and nothing is learned."""

    def __init__(self, policy: ExpertPolicy, session: Session) -> None:
        self._policy = policy
        self._session = session
        self.steps: list[Step] = []

    def run(self, task: Task) -> Best:
        """The candidate of the best recipe; of the next best one if that is not correct. Raises
        KernelBlasterError if none of JUDGED is."""
        first = self._policy.initial(task)
        left = self._ordered(list(islice(self._attempts(first), MODELLED)))
        judging = self._session.judging
        for attempt in [*left, first][:JUDGED]:
            evaluation = judging.judge(attempt.candidate)
            if isinstance(evaluation.outcome, CORRECT):
                return Best(attempt.candidate, evaluation, attempt.applied, "one recipe was wanted")
        raise KernelBlasterError(f"{task.name}: no recipe gave a correct candidate; search without --quick.")

    def _attempts(self, first: Attempt) -> Iterator[Attempt]:
        """Yields the candidates that known and usual recipes make of the first one, most recommended first,
        each once."""
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
        """The attempts in the order in which they are to be judged: the one first that the emulator's model
        finds fastest; as they come if it cannot model the most recommended one."""
        if len(attempts) < 2:
            return attempts
        times = self._session.judging.modelled_us([attempt.candidate for attempt in attempts])
        if times[0] is None:
            return attempts
        known = {a.candidate.code: us for a, us in zip(attempts, times, strict=True) if us is not None}
        return sorted(attempts, key=lambda one: known.get(one.candidate.code, float("inf")))
