"""What all roles know: the task, the GPU, where they work, and whom to ask."""

from dataclasses import dataclass
from functools import cached_property

from kernelblaster.policies.llm.asker import Asker
from kernelblaster.policies.llm.data import data
from kernelblaster.policies.llm.digest import digest, whole_profile
from kernelblaster.policies.llm.facts import change_contract, contract, gpu, times
from kernelblaster.policies.llm.prompt import Piece
from kernelblaster.policies.llm.surroundings import Surroundings
from kernelblaster.records import Profile, Task

UNLIMITED = 100_000  # tokens of a prompt that is not kept short


@dataclass(frozen=True)
class Scene:
    """One task of one run. With `whole_profiles`, prompts have every metric in place of a digest, and no
    budget: for comparison."""

    task: Task
    surroundings: Surroundings
    asker: Asker
    whole_profiles: bool = False

    @cached_property
    def contract(self) -> str:
        return contract(self.task)

    @cached_property
    def change_contract(self) -> str:
        return change_contract(self.task)

    @cached_property
    def gpu(self) -> str:
        return gpu(self.surroundings.spec, modelled=self.surroundings.modelled)

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
    def architecture(self) -> str:
        return self.surroundings.spec.architecture

    def times(self, code: str) -> str:
        """What is known of a candidate's time."""
        evaluation = self.surroundings.evaluations.get(code)
        return times(evaluation.timing if evaluation else None)
