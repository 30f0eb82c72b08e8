"""The state extractor, a role of the language model: it names what bounds each kernel (its performance
state), from its profile."""

import re

from pydantic import BaseModel, Field

from kernelblaster.policies.expert.states import ABOUT, extract_states, state_name
from kernelblaster.policies.llm.asker import Question
from kernelblaster.policies.llm.digest import kernel_name
from kernelblaster.policies.llm.scene import Scene
from kernelblaster.policies.llm.source_view import view
from kernelblaster.records import Candidate, KernelState, Profile, State
from kernelblaster.records.state import Bottleneck

SECONDARY = 3
WORD = re.compile(r"[a-z][a-z0-9-]{1,30}")


class NamedState(BaseModel):
    kernel: str
    primary: Bottleneck
    secondary: list[str] = Field(default_factory=list)
    description: str


class NamedStates(BaseModel):
    kernels: list[NamedState]


def states_by_model(
    scene: Scene, candidate: Candidate, profile: Profile, floor_bytes: int
) -> tuple[KernelState, ...]:
    """Asks the model for the performance state of each kernel in the `profile` of `candidate`, and returns
    the states in launch order. Bottleneck and description of a state are the model's, its metrics those of
    the profile. A kernel that is missing in the model's answer gets the state that the rules of the built-in
    expert policy find; all kernels do if there is no usable answer. `scene` is the context for the prompt;
    `floor_bytes` is the least memory traffic of the task, in bytes."""
    found = extract_states(profile, floor_bytes)
    answer = scene.asker.ask(extractor_question(scene, candidate, profile, floor_bytes))
    named = {one.kernel: one for one in answer.kernels} if answer else {}
    return tuple(
        KernelState(kernel=k.kernel, share=k.share, state=_state(named[name], k.state))
        if (name := kernel_name(k.kernel)) in named
        else k
        for k in found
    )


def extractor_question(
    scene: Scene, candidate: Candidate, profile: Profile, floor_bytes: int
) -> Question[NamedStates]:
    """Returns the question that asks the model what the bottleneck of each kernel in the `profile` of
    `candidate` is. `scene` is the context for the prompt. `floor_bytes` is the least memory traffic of the
    task, in bytes."""
    return Question(
        role="state-extractor",
        key=candidate.code,
        system=scene.change_contract,
        template="state_extractor.md",
        sections={
            "digest": scene.profile(profile, floor_bytes),
            "gpu": scene.gpu,
            "source": view("candidate", candidate.source, (), needed=False).pieces,
            "bottlenecks": "\n".join(f"- {name}: {words}" for name, words in ABOUT.items()),
        },
        schema=NamedStates,
        prompt_tokens=scene.prompt_tokens,
    )


def _state(named: NamedState, measured: State) -> State:
    """The state as the model named it, with the metrics of `measured`. Of the secondary tags, those that are
    not plain lower-case words are dropped, and at most SECONDARY are kept."""
    words = sorted({w for word in named.secondary if WORD.fullmatch(w := word.strip().lower())})
    secondary = tuple(word for word in words if word != named.primary)[:SECONDARY]
    return State(
        name=state_name(named.primary, secondary),
        primary=named.primary,
        secondary=secondary,
        description=named.description[:400],
        metrics=measured.metrics,
    )
