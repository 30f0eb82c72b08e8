"""The strategy `zero-shot`: the model writes the task's kernel from the reference alone, without feedback."""

from kernelblaster.errors import KernelBlasterError
from kernelblaster.policies.llm.initial_writer import ORIGIN, draft
from kernelblaster.policies.llm.policy import MixedPolicy
from kernelblaster.records import Candidate, Step, StepId, Task
from kernelblaster.search.strategy import Best
from kernelblaster.sessions.log import Trial
from kernelblaster.sessions.session import Session


class ZeroShot:
    """A search (in `session`) that asks the language model of `policy` for as many independent candidates as
    there are rollouts, and has each judged once. The model gets no feedback. `steps` stays empty."""

    def __init__(self, policy: MixedPolicy, session: Session) -> None:
        self._policy = policy
        self._session = session
        self.steps: list[Step] = []

    def run(self, task: Task) -> Best:
        """Asks the model for one candidate for `task` for each rollout, has them judged, and returns the
        fastest correct one. Raises KernelBlasterError if none is correct."""
        scene = self._policy.begin(task)
        sources = [draft(scene, seed) for seed in range(self._session.search.rollouts)]
        drafts = [Candidate(source=source, origin=ORIGIN) for source in dict.fromkeys(sources) if source]
        for number, candidate in enumerate(drafts):  # the budget grants one before anything was judged
            trial = Trial(StepId(0, number, 0), "", "zero_shot", 1.0, candidate)
            self._session.tell(f"0/{trial.id}", [trial])
        ranked = self._session.judging.ranked()
        if not ranked:
            raise KernelBlasterError(
                f"{task.name}: none of {len(drafts)} answers of the model was a correct candidate."
            )
        candidate, evaluation = ranked[0]
        return Best(candidate, evaluation, ("zero_shot",))
