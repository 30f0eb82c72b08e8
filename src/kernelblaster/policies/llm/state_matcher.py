"""The state matcher, a role of the language model: for a kernel's performance state, it tells which state of
the knowledge base is the same, if any."""

from pydantic import BaseModel, Field

from kernelblaster.knowledge.content import Content
from kernelblaster.knowledge.matching import distance
from kernelblaster.policies.llm.asker import Question
from kernelblaster.policies.llm.data import RULE, one_line
from kernelblaster.policies.llm.knowledge_view import helps, state_text
from kernelblaster.policies.llm.prompt import NEEDED, Piece
from kernelblaster.policies.llm.scene import Scene
from kernelblaster.records import State

NEAREST = 8  # known states that are listed


class Matched(BaseModel):
    name: str = Field(description="A known state's name, or empty.")
    reason: str


def match_by_model(scene: Scene, state: State) -> State:
    """Asks the model which known performance state of the knowledge base is the same as `state`. Returns a
    copy of `state` that has the name of this known state. Returns `state` unchanged if (1) the knowledge base
    has a state of its name already, in which case the model is not asked, (2) the model finds none that is
    the same, or (3) there is no usable answer. In the last two cases the search uses the nearest known state
    by distance. `scene` is the context for the prompt."""
    content = scene.session.memory.now()
    if state.name in content.states or not content.living:
        return state
    near = _nearest(state, content)
    answer = scene.asker.ask(matcher_question(scene, state, near, content))
    chosen = answer.name.strip() if answer else ""
    return state.model_copy(update={"name": chosen}) if chosen in {s.name for s in near} else state


def matcher_question(scene: Scene, state: State, near: list[State], content: Content) -> Question[Matched]:
    """Returns the question that asks the model which of the known performance states in `near` is the same as
    `state`. `near` has the nearest first; `scene` is the context for the prompt; `content` is the knowledge
    base, from which the question says what helps in each of them."""
    known = [
        piece
        for rank, s in enumerate(near)
        for piece in (
            Piece(f"- {one_line(s.name)}: {one_line(s.description, 300)}", NEEDED if rank < 3 else 40 - rank),
            Piece(helps(content, s.name, scene.architecture), 60 - rank if rank < 3 else 30 - rank),
        )
    ]
    return Question(
        role="state-matcher",
        key=state.digest,
        system=f"You know how GPU kernels behave. {RULE}",
        template="state_matcher.md",
        sections={"state": state_text(state, figures=True), "known": known},
        schema=Matched,
    )


def _nearest(state: State, content: Content) -> list[State]:
    """The NEAREST states of the knowledge base `content` by distance from `state`, the closest first."""
    living = [entry.state for entry in content.living]
    return sorted(living, key=lambda other: (distance(state, other), other.name))[:NEAREST]
