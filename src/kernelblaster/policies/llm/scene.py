"""`Scene`, the source of everything that prompts are made from: the task, the GPU, the search's history and
knowledge, and the model to ask."""

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
    """The context of all prompts about one task of one run: it gives the texts on the GPU, times, history and
    techniques, and has the `asker`, which asks the model. `session` is the run's search, from which the texts
    are made. `detail` is how much prompts show of profiles: a `digest`, the `whole` profile, or only `cycles`
    (durations). `summaries` are the model's descriptions of its changes, by the code (16 hexadecimal digits)
    of the candidate that each gave; they are added during the run."""

    task: Task
    session: Session
    asker: Asker
    detail: PromptDetail = "digest"
    summaries: dict[str, str] = field(default_factory=dict)

    @cached_property
    def contract(self) -> str:
        """The rules for candidates of the task, as the system message of questions that ask for a whole new
        source."""
        return contract(self.task)

    @cached_property
    def change_contract(self) -> str:
        """The rules for candidates of the task in a shorter form, as the system message of questions that ask
        to change an existing candidate."""
        return change_contract(self.task)

    @cached_property
    def gpu(self) -> str:
        """The description of the GPU in prompts: limits of an SM, rates, instructions."""
        return gpu(self.session.gpu, modelled=self.modelled)

    @property
    def prompt_tokens(self) -> int | None:
        """The limit in tokens for prompts that show a profile: 100,000 (UNLIMITED) if they show the whole
        profile, else None, which means the usual limit of the role."""
        return UNLIMITED if self.detail == "whole" else None

    def visible(self, profile: Profile) -> Profile:
        """Returns the part of a profile that the policy may use: all of it, or only the durations if prompts
        are limited to these (the field `detail` is `cycles`)."""
        return profile if self.detail != "cycles" else profile.only("Duration")

    def profile(self, profile: Profile, floor_bytes: int, kernel: str | None = None) -> list[Piece]:
        """Returns a profile as texts for a prompt: as a digest, or with every metric if the field `detail` is
        `whole`. `profile` has only what the policy may use, as `visible` returns it. `floor_bytes` is the
        least memory traffic of the task, in bytes. `kernel` is the name of the kernel that the prompt is
        about, None if it is about all."""
        if self.detail == "whole":
            return [Piece(data("profile", whole_profile(profile)), 50, "(left out: too long)")]
        return digest(profile, floor_bytes, kernel)

    @property
    def modelled(self) -> bool:
        """True if the device is the emulator, whose times come from a model of the GPU."""
        return self.session.modelled

    @property
    def architecture(self) -> str:
        """The name under which the knowledge base keeps results of this device: for example `sm_90a`, or on
        the emulator `sm_90a (modelled)`."""
        return platform(self.session.gpu.architecture, modelled=self.modelled)

    def times(self, code: str) -> str:
        """Returns a sentence with the times, in us, of the candidate `code`, of the baseline and of the
        roofline floor, and of the run's fastest correct candidate if that is another one. `not timed` if the
        candidate has no timing."""
        evaluations = self.session.judging.evaluations
        timing = evaluations[code].timing if code in evaluations else None
        correct = [e.timing for e in evaluations.values() if e.timing and isinstance(e.outcome, CORRECT)]
        best_us = min((one.candidate_us for one in correct), default=None)
        return times(timing, best_us if timing and best_us != timing.candidate_us else None, self.floor)

    @cached_property
    def floor(self) -> str:
        """How the task's roofline floor (the least time that the GPU's bandwidth and peak rates allow) is
        computed, in words, such as `12.6 MB at 4800 GB/s`."""
        return floor_words(self.session.gpu, self.task, self.session.judging.floor)

    def around(self, state: State) -> Neighbourhood:
        """Returns the part of the present knowledge base that is about the performance state `state` and
        similar states: their techniques, notes and exemplars (sources of searches' best candidates)."""
        return Neighbourhood(self.session.memory.now(), state)

    def techniques(self, state: State, applied: tuple[str, ...], family: str | None) -> list[Retrieved]:
        """Returns the techniques that the knowledge base has for a kernel of a `family` (kind of computation;
        None: unknown) in the performance state `state` and in similar ones. Each has a prediction, which
        assumes that the techniques `applied` came before, and the results of earlier attempts in these
        states. Techniques that are made for families which this task does not have are left out."""
        known = self.around(state).techniques(self.architecture, applied, family)
        return [one for one in known if may_use(self.task, one.technique)]

    def possible_speedup(self, code: str) -> float | None:
        """Returns the speedup that the candidate `code` would gain if it became as fast as the roofline floor
        (the least time that the GPU allows): its time divided by the floor's. None if it was not timed or the
        floor is 0."""
        evaluation = self.session.judging.evaluations.get(code)
        timing = evaluation.timing if evaluation else None
        return timing.candidate_us / timing.floor_us if timing and timing.floor_us > 0 else None

    def history(self, code: str, state: str, kernel: str) -> list[Piece]:
        """Returns lines for a prompt on earlier steps of the run, each with its result, in four groups: (1)
        steps that changed the candidate `code` (16 hexadecimal digits); (2) steps by which the run came from
        its first candidate to this one; (3) steps that changed other candidates and failed; (4) steps that
        changed other candidates, did not fail, and were made in the performance state named `state`. `kernel`
        is the kernel that the prompt is about; a line names the kernel that its step changed only if that is
        another one."""
        tried = Tried(self.session.log.steps, self.session.judging.evaluations, self.summaries)
        return history(tried, code, state, kernel)
