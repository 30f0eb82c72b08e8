"""`Scene`: what the prompts of all roles need to know: the task, the GPU, the session, and the model to
ask."""

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
    """The context of all prompts about one task of one run: what they say on the GPU, times, history and
    techniques, and the `asker` that asks the model. `detail` is how much they show of profiles. `summaries`
    are the model's own descriptions of its changes, by the `code` (a digest) of the resulting candidates;
    filled during the run."""

    task: Task
    session: Session
    asker: Asker
    detail: PromptDetail = "digest"
    summaries: dict[str, str] = field(default_factory=dict)

    @cached_property
    def contract(self) -> str:
        """The rules for a candidate of the task: the system message of questions that ask for one from
        nothing."""
        return contract(self.task)

    @cached_property
    def change_contract(self) -> str:
        """The shorter rules for candidates of the task: the system message of questions that ask to change
        one."""
        return change_contract(self.task)

    @cached_property
    def gpu(self) -> str:
        """The description of the GPU in prompts: limits of an SM, rates, instructions."""
        return gpu(self.session.gpu, modelled=self.modelled)

    @property
    def prompt_tokens(self) -> int | None:
        """The limit in tokens of prompts that show profiles; None where the limit of the kind of question
        applies."""
        return UNLIMITED if self.detail == "whole" else None

    def visible(self, profile: Profile) -> Profile:
        """What the policy may know of a profile: all of it, or with the detail `cycles` only durations."""
        return profile if self.detail != "cycles" else profile.only("Duration")

    def profile(self, profile: Profile, floor_bytes: int, kernel: str | None = None) -> list[Piece]:
        """A profile (as `visible` returns it) as texts for a prompt: a digest, or all metrics if `detail` is
        `whole`. `floor_bytes` is the least memory traffic of the task in bytes. `kernel` is the one that the
        prompt is about, None if it is about all."""
        if self.detail == "whole":
            return [Piece(data("profile", whole_profile(profile)), 50, "(left out: too long)")]
        return digest(profile, floor_bytes, kernel)

    @property
    def modelled(self) -> bool:
        """Whether the device is the emulator, whose times come from a model of the GPU."""
        return self.session.modelled

    @property
    def architecture(self) -> str:
        """The name under which the knowledge base keeps results of this device: such as `sm_90a`, or `sm_90a
        (modelled)` on the emulator."""
        return platform(self.session.gpu.architecture, modelled=self.modelled)

    def times(self, code: str) -> str:
        """A sentence on the time of the candidate `code` (a digest) in us, the baseline's and the roofline
        floor's, and the run's best if that is another candidate's; `not timed` if there is no timing."""
        evaluations = self.session.judging.evaluations
        timing = evaluations[code].timing if code in evaluations else None
        correct = [e.timing for e in evaluations.values() if e.timing and isinstance(e.outcome, CORRECT)]
        best_us = min((one.candidate_us for one in correct), default=None)
        return times(timing, best_us if timing and best_us != timing.candidate_us else None, self.floor)

    @cached_property
    def floor(self) -> str:
        """What the task's roofline floor (the least time that the GPU's bandwidth and peak rates allow) is
        made of, in words."""
        return floor_words(self.session.gpu, self.task, self.session.judging.floor)

    def around(self, state: State) -> Neighbourhood:
        """What the present knowledge base has on the performance state `state` and on similar states."""
        return Neighbourhood(self.session.memory.now(), state)

    def techniques(self, state: State, applied: tuple[str, ...], family: str | None) -> list[Retrieved]:
        """The techniques that the knowledge base has for a kernel of a `family` in `state` and in similar
        states, with predictions for an attempt after the techniques `applied`. Techniques that are made for
        certain families of tasks are left out if this task is of another."""
        known = self.around(state).techniques(self.architecture, applied, family)
        return [one for one in known if may_use(self.task, one.technique)]

    def possible_speedup(self, code: str) -> float | None:
        """The speedup at which the candidate `code` would take as long as the roofline floor (the least time
        that the GPU allows); None if it was not timed or the floor is 0."""
        evaluation = self.session.judging.evaluations.get(code)
        timing = evaluation.timing if evaluation else None
        return timing.candidate_us / timing.floor_us if timing and timing.floor_us > 0 else None

    def history(self, code: str, state: str, kernel: str) -> list[Piece]:
        """Lines for a prompt on what was tried from the candidate `code` (a digest), on the path to it, and
        elsewhere in the same `state`; `kernel` is the one that the prompt is about."""
        tried = Tried(self.session.log.steps, self.session.judging.evaluations, self.summaries)
        return history(tried, code, state, kernel)
