"""The simplest use of a language model, with which the search is compared: the model has no roles and no
memory, gets a source and its profile, and writes a whole new source."""

from dataclasses import dataclass

from pydantic import BaseModel, Field

from kernelblaster.policies.llm.asker import Question
from kernelblaster.policies.llm.data import data
from kernelblaster.policies.llm.digest import whole_profile
from kernelblaster.policies.llm.prompt import Piece
from kernelblaster.policies.llm.reference_words import reference
from kernelblaster.policies.llm.scene import UNLIMITED, Scene
from kernelblaster.records import Candidate, Profile


class NewSource(BaseModel):
    summary: str = Field(description="What was changed.")
    source: str = Field(description="The whole new CUDA C++ file.")


@dataclass(frozen=True)
class Draft:
    """A candidate that the model is asked to rewrite. `step` identifies the question in the run. `profile` is
    shown with every metric; None shows the time alone. `feedback` is what the judge said of a failed version;
    empty if none failed. A different `seed` asks for another answer."""

    step: str
    candidate: Candidate
    profile: Profile | None
    feedback: str = ""
    seed: int = 0


def rewrite_plainly(scene: Scene, draft: Draft) -> str | None:
    """Asks the model, with `scene` as the context for the prompt, and returns the whole new source that it
    writes for the candidate in `draft`, not yet judged; None if there is no usable answer."""
    answer = scene.asker.ask(plain_question(scene, draft))
    return answer.source if answer and answer.source.strip() else None


def plain_question(scene: Scene, draft: Draft) -> Question[NewSource]:
    """Returns the question that asks the model for a whole new source. It shows the reference of the task in
    `scene`, and the time, profile and source of the candidate in `draft`. Its prompt is shortened only if it
    exceeds 100,000 tokens (UNLIMITED)."""
    profile = data("profile", whole_profile(draft.profile)) if draft.profile else ""
    return Question(
        role="lowerer",
        key=f"plain/{draft.step}",
        system=scene.contract,
        template="minimal.md",
        sections={
            "reference": reference(scene.task),
            "gpu": scene.gpu,
            "times": scene.times(draft.candidate.code),
            "profile": [Piece(profile, 50, "(left out: too long)")] if profile else "",
            "feedback": data("what the judge found", draft.feedback) if draft.feedback else "",
            "source": data("candidate", draft.candidate.source),
        },
        schema=NewSource,
        seed=draft.seed,
        prompt_tokens=UNLIMITED,
    )
