"""The built-in policy: a graph becomes a plan, techniques rewrite it, emitting it gives a candidate."""

from collections.abc import Sequence
from functools import cached_property

from kernelblaster.policies.expert.emit import emit
from kernelblaster.policies.expert.graph import capture
from kernelblaster.policies.expert.lower import initial_plan
from kernelblaster.policies.expert.plan import Plan
from kernelblaster.policies.expert.states import choose_target, extract_states
from kernelblaster.policies.expert.techniques import Technique, load_techniques
from kernelblaster.policies.policy import Attempt
from kernelblaster.records import Candidate, Profile, State, Task


class ExpertPolicy:
    """Implements `Policy` without a language model."""

    @cached_property
    def _techniques(self) -> dict[str, Technique]:
        return load_techniques()

    @property
    def techniques(self) -> Sequence[str]:
        return tuple(sorted(self._techniques))

    def initial(self, task: Task) -> Attempt:
        return _attempt(initial_plan(capture(task)), "initial")

    def moves(self, attempt: Attempt, technique: str) -> list[Attempt]:
        if technique not in self._techniques:
            return []
        plans = self._techniques[technique](attempt.form)
        found = {a.candidate.source: a for a in (_attempt(plan, technique) for plan in plans)}
        return [a for source, a in found.items() if source != attempt.candidate.source]

    def state(self, profile: Profile, floor_bytes: int) -> State | None:
        target = choose_target(extract_states(profile, floor_bytes))
        return target.kernel.state if target else None


def _attempt(plan: Plan, origin: str) -> Attempt:
    return Attempt(Candidate(source=emit(plan), origin=f"expert: {origin}"), plan)
