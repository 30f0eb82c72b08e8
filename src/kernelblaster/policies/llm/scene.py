"""What all roles know: the task, the GPU, where they work, and whom to ask."""

from dataclasses import dataclass, field
from functools import cached_property

from kernelblaster.policies.llm.asker import Asker
from kernelblaster.policies.llm.data import data
from kernelblaster.policies.llm.digest import digest, whole_profile
from kernelblaster.policies.llm.facts import change_contract, contract, times
from kernelblaster.policies.llm.gpu_words import gpu
from kernelblaster.policies.llm.history import Tried, history
from kernelblaster.policies.llm.prompt import Piece
from kernelblaster.records import Profile, Task
from kernelblaster.records.outcome import CORRECT
from kernelblaster.sessions.session import Session

UNLIMITED = 100_000  # tokens of a prompt that is not kept short


@dataclass(frozen=True)
class Scene:
    """One task of one run. With `whole_profiles`, prompts have every metric in place of a digest, and no
    budget: for comparison. `summaries` are what the model said of the changes that it made, by the `code`
    of the candidates that they gave."""

    task: Task
    session: Session
    asker: Asker
    whole_profiles: bool = False
    summaries: dict[str, str] = field(default_factory=dict)

    @cached_property
    def contract(self) -> str:
        return contract(self.task)

    @cached_property
    def change_contract(self) -> str:
        return change_contract(self.task)

    @cached_property
    def gpu(self) -> str:
        return gpu(self.session.gpu, modelled=self.modelled)

    @property
    def prompt_tokens(self) -> int | None:
        """The budget of prompts with profiles; None: that of the role."""
        return UNLIMITED if self.whole_profiles else None

    def profile(self, profile: Profile, floor_bytes: int, kernel: str | None = None) -> list[Piece]:
        """What prompts tell of a profile."""
        if self.whole_profiles:
            return [Piece(data("profile", whole_profile(profile)), 50, "(left out: too long)")]
        return digest(profile, floor_bytes, kernel)

    @property
    def modelled(self) -> bool:
        """Whether the device only emulates."""
        return self.session.modelled

    @property
    def architecture(self) -> str:
        return self.session.gpu.architecture

    def times(self, code: str) -> str:
        """What is known of a candidate's time, and the best one where that is another's."""
        evaluations = self.session.judging.evaluations
        timing = evaluations[code].timing if code in evaluations else None
        correct = [e.timing for e in evaluations.values() if e.timing and isinstance(e.outcome, CORRECT)]
        best_us = min((one.candidate_us for one in correct), default=None)
        return times(timing, best_us if timing and best_us != timing.candidate_us else None)

    def history(self, code: str, state: str, kernel: str) -> list[Piece]:
        """What was tried from a candidate, on the way to it, and in the state of its kernel."""
        tried = Tried(self.session.log.steps, self.session.judging.evaluations, self.summaries)
        return history(tried, code, state, kernel)
