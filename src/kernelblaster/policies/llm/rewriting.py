"""Gets a new source from a model by asking for changes to an old one. Asks once more if the changes cannot be
applied, and asks for corrections of failed candidates."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import BaseModel, Field

from kernelblaster.policies.llm.asker import Question
from kernelblaster.policies.llm.data import data, one_line
from kernelblaster.policies.llm.edits import Refusal, SourceEdit, changed
from kernelblaster.policies.llm.prompt import Piece
from kernelblaster.policies.llm.reference_words import reference
from kernelblaster.policies.llm.roles import Role
from kernelblaster.policies.llm.scene import Scene
from kernelblaster.policies.llm.source_view import view

TRIES = 2  # at changes that can be applied
REFERENCE = 45  # importance


class Rewrite(BaseModel):
    """A model's answer to the request to change a candidate. `applicable` is False if the change cannot be
    made. The new candidate is given by `edits` of the old source or, if most of it changes, as the whole
    `source`. `summary` says what was changed. `also_changed` names further techniques that came along,
    `not_applied` those that were asked for and left out."""

    applicable: bool = Field(
        description="false if what was asked for cannot be applied, is applied already, or cannot pay here."
    )
    summary: str = Field(description="What was changed, or why nothing can be, in a sentence or two.")
    edits: list[SourceEdit] = Field(default_factory=list, description="Replacements, made in this order.")
    source: str = Field(default="", description="The whole new file, where most of it changes; else empty.")
    also_changed: list[str] = Field(
        default_factory=list, description="Names of other techniques that necessarily came along."
    )
    not_applied: list[str] = Field(
        default_factory=list, description="Of several techniques that were asked for, those left out."
    )

    @property
    def full_summary(self) -> str:
        """The model's summary of its change, followed by the names of other techniques that the change
        necessarily brought along."""
        return f"{self.summary} (also: {', '.join(self.also_changed)})" if self.also_changed else self.summary


@dataclass(frozen=True)
class Rewritten:
    """The result of asking a model to rewrite a source. `source` is the new source, None if the model
    declined or gave nothing usable. `summary` is the model's description of its change. `declined`: the model
    said that the change cannot be applied here. `not_applied` names those techniques that it left out, if
    several were asked for."""

    source: str | None
    summary: str = ""
    declined: bool = False
    not_applied: frozenset[str] = frozenset()


NOTHING = Rewritten(None)


@dataclass(frozen=True)
class RewritingTask:
    """A request to rewrite `source`. `kernels` names the kernels that the change is about; a long prompt
    never leaves them out. `role` is the role in which the model is asked, `system` the system message with
    the rules. `key` identifies the questions in the run; a different `seed` asks for another answer."""

    role: Role
    key: str
    source: str
    kernels: Sequence[str]
    system: str
    seed: int = 0


def rewrite(scene: Scene, work: RewritingTask, template: str, sections: Mapping[str, Any]) -> Rewritten:
    """Asks the model for changes to the source in `work` and applies them. Returns the new source with the
    model's summary, and the names of techniques that it left out. The result's `source` is None if the model
    declined or gave nothing usable. If the changes cannot be applied, the reason is shown to the model, which
    is asked once more. `scene` is the context for the prompt, which is the `template` filled with `sections`
    and the source."""
    shown = view("candidate", work.source, work.kernels)
    refusal = ""
    for number in range(TRIES):
        question = Question(
            role=work.role,
            key=f"{work.key}/edits{number}" if number else work.key,
            system=work.system,
            template=template,
            sections={**sections, "source": shown.pieces, "refusal": refusal},
            schema=Rewrite,
            seed=work.seed,
            prompt_tokens=scene.prompt_tokens,
        )
        answer = scene.asker.ask(question)
        if answer is None:
            return NOTHING
        if not answer.applicable:
            return Rewritten(None, answer.summary, declined=True)
        try:
            all_shown = shown.all_shown(scene.asker.prompt(question))
            new = changed(work.source, answer.source, answer.edits, all_shown=all_shown)
        except Refusal as problem:
            refusal = f"Your last changes were not applied: {one_line(str(problem), 400)}."
        else:
            return Rewritten(new, answer.full_summary, not_applied=frozenset(answer.not_applied))
    return NOTHING


def mend(scene: Scene, work: RewritingTask, what: str, said: str) -> Rewritten:
    """Asks the model to correct a candidate that failed, whose source is in `work`, and applies its changes;
    if they cannot be applied, it is asked once more. Returns the corrected source with the model's summary;
    the result's `source` is None if the model declined or gave nothing usable. `scene` is the context for the
    prompt. `what` says what the candidate should compute, `said` is the judge's feedback on it."""
    sections = {
        "reference": [Piece(reference(scene.task), REFERENCE)],
        "what": what,
        "feedback": data("what the judge found", said),
        "gpu": scene.gpu,
    }
    return rewrite(scene, replace(work, key=f"{work.key}/mend"), "mend.md", sections)
