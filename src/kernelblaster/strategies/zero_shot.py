"""Zero-shot: the model writes the task's kernel from the reference alone, and that is that."""

from kernelblaster.errors import KernelBlasterError
from kernelblaster.policies.llm.initial_writer import ORIGIN, draft
from kernelblaster.policies.llm.policy import MixedPolicy
from kernelblaster.policies.policy import Attempt
from kernelblaster.records import Candidate, Step, Task
from kernelblaster.strategies.search import Search, Trial
from kernelblaster.strategies.strategy import Found, Reached, Workplace


class ZeroShot:
    """As many independent answers as there are rollouts; the fastest correct one is the result. Nothing
    that the judge says goes back to the model."""

    def __init__(self, policy: MixedPolicy, session: Workplace, search: Search) -> None:
        self._policy = policy
        self._session = session
        self._search = search
        self.steps: list[Step] = []

    def run(self, task: Task) -> Found:
        scene = self._policy.begin(task)
        sources = [draft(scene, seed) for seed in range(self._search.rollouts)]
        drafts = [Candidate(source=source, origin=ORIGIN) for source in dict.fromkeys(sources) if source]
        trials = [Trial(f"0/{n}/0/0", "", "zero_shot", 1.0, candidate) for n, candidate in enumerate(drafts)]
        for trial in trials:  # the budget grants one before anything was judged
            self._session.evaluate(f"0/{trial.place}", [trial])
        ranked = self._session.ranked()
        if not ranked:
            raise KernelBlasterError(
                f"{task.name}: none of {len(drafts)} answers of the model was a correct candidate."
            )
        candidate, evaluation = ranked[0]
        return Reached(Attempt(candidate, None), evaluation, ("zero_shot",))
