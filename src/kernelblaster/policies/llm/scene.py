"""The context of all roles: the task, the GPU, the session, and the model to ask."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from kernelblaster.knowledge.evidence import platform
from kernelblaster.knowledge.retrieval import Neighbourhood, Retrieved
from kernelblaster.policies.llm.asker import Asker
from kernelblaster.policies.llm.data import data
from kernelblaster.policies.llm.digest import digest, whole_profile
from kernelblaster.policies.llm.facts import change_contract, contract, floor_words, times
from kernelblaster.policies.llm.families import may_use
from kernelblaster.policies.llm.gpu_words import gpu
from kernelblaster.policies.llm.history import Tried, history
from kernelblaster.policies.llm.prompt import Piece
from kernelblaster.records import Profile, State, Task
from kernelblaster.records.outcome import CORRECT
from kernelblaster.sessions.session import Session

UNLIMITED = 100_000  # tokens of a prompt that is not kept short
PromptDetail = Literal["digest", "whole", "cycles"]
"""What prompts and states see of a profile: a digest; all metrics, without a token limit; only times."""


@dataclass(frozen=True)
class Scene:
    """The context of all prompts about one task of one run. `detail` is what they show of profiles.
    `summaries` are the model's own descriptions of its changes, by the `code` of the resulting candidates;
    filled during the run."""

    task: Task
    session: Session
    asker: Asker
    detail: PromptDetail = "digest"
    summaries: dict[str, str] = field(default_factory=dict)

    @cached_property
    def contract(self) -> str:
        """The system message of roles that write a candidate from nothing."""
        return contract(self.task)

    @cached_property
    def change_contract(self) -> str:
        """The system message of roles that change a candidate."""
        return change_contract(self.task)

    @cached_property
    def gpu(self) -> str:
        """The GPU in words."""
        return gpu(self.session.gpu, modelled=self.modelled)

    @property
    def prompt_tokens(self) -> int | None:
        """The token limit of prompts with profiles; None: the role's own."""
        return UNLIMITED if self.detail == "whole" else None

    def visible(self, profile: Profile) -> Profile:
        """What the policy may know of a profile: all of it, or with the detail `cycles` only durations."""
        return profile if self.detail != "cycles" else profile.only("Duration")

    def profile(self, profile: Profile, floor_bytes: int, kernel: str | None = None) -> list[Piece]:
        """A visible profile as pieces of a prompt: a digest, or all metrics with the detail `whole`.
        `floor_bytes` is the least memory traffic of the task; `kernel` is the one that the prompt is about,
        None: all."""
        if self.detail == "whole":
            return [Piece(data("profile", whole_profile(profile)), 50, "(left out: too long)")]
        return digest(profile, floor_bytes, kernel)

    @property
    def modelled(self) -> bool:
        """Whether the device is emulated."""
        return self.session.modelled

    @property
    def architecture(self) -> str:
        """The name under which evidence of this device is kept (`knowledge.evidence.platform`)."""
        return platform(self.session.gpu.architecture, modelled=self.modelled)

    def times(self, code: str) -> str:
        """A sentence on the time of the candidate `code`, and on the run's best if that is another
        candidate's."""
        evaluations = self.session.judging.evaluations
        timing = evaluations[code].timing if code in evaluations else None
        correct = [e.timing for e in evaluations.values() if e.timing and isinstance(e.outcome, CORRECT)]
        best_us = min((one.candidate_us for one in correct), default=None)
        return times(timing, best_us if timing and best_us != timing.candidate_us else None, self.floor)

    @cached_property
    def floor(self) -> str:
        """What the task's floor is made of, in words."""
        return floor_words(self.session.gpu, self.task, self.session.judging.floor)

    def around(self, state: State) -> Neighbourhood:
        """What the present knowledge base knows around a state."""
        return Neighbourhood(self.session.memory.now(), state)

    def techniques(self, state: State, applied: tuple[str, ...], family: str | None) -> list[Retrieved]:
        """What is known around a state of techniques after those `applied`, see `Neighbourhood.techniques`;
        without those that are made for another family of tasks."""
        known = self.around(state).techniques(self.architecture, applied, family)
        return [one for one in known if may_use(self.task, one.technique)]

    def possible_speedup(self, code: str) -> float | None:
        """The speedup at which the candidate `code` would take no longer than the floor; None if it was not
        timed."""
        evaluation = self.session.judging.evaluations.get(code)
        timing = evaluation.timing if evaluation else None
        return timing.candidate_us / timing.floor_us if timing and timing.floor_us > 0 else None

    def history(self, code: str, state: str, kernel: str) -> list[Piece]:
        """Prompt lines on what was tried from the candidate `code`, on the path to it, and elsewhere in the
        same `state`; `kernel` is the one that the prompt is about."""
        tried = Tried(self.session.log.steps, self.session.judging.evaluations, self.summaries)
        return history(tried, code, state, kernel)
