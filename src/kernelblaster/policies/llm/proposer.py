"""The proposer, a role of the language model: it suggests techniques for a kernel beyond those in the
knowledge base, and which to apply together."""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import BaseModel, Field

from kernelblaster.policies.llm.asker import Question
from kernelblaster.policies.llm.gpu_words import only_on_hardware
from kernelblaster.policies.llm.knowledge_view import state_text, technique_pieces
from kernelblaster.policies.llm.prompt import Piece
from kernelblaster.policies.llm.recipe_view import recipe_pieces
from kernelblaster.policies.llm.reference_words import reference
from kernelblaster.policies.llm.rewriting import REFERENCE
from kernelblaster.policies.llm.scene import Scene
from kernelblaster.policies.llm.source import parts_of, used_by
from kernelblaster.policies.llm.source_view import view
from kernelblaster.records import Candidate, Optimization, Profile
from kernelblaster.records.recipe import Recipe
from kernelblaster.records.target import Target

MOST = 3  # new techniques in one answer
KNOWN = 10  # known techniques that are listed
LEAST, UNTIMED = (
    0.1,
    1000.0,
)  # what a prediction is kept within, where the floor does not say how much is possible
NAME = re.compile(r"[a-z][a-z0-9_]{2,59}")


class Proposal(BaseModel):
    technique: str = Field(description="A general name in lower_case_with_underscores.")
    description: str = Field(description="What to do, in general terms.")
    predicted: float = Field(description="The speedup of the whole call by it alone; 1.0 is none.", gt=0)
    reason: str = Field(description="Why here.")


class Combination(BaseModel):
    techniques: list[str] = Field(description="Names of known or proposed techniques, two or more.")
    predicted: float = Field(description="The speedup of the whole call by all of them.", gt=0)


class Proposals(BaseModel):
    inapplicable: list[str] = Field(
        default_factory=list,
        description="Known techniques that cannot be applied to this kernel or are done here already.",
    )
    proposals: list[Proposal]
    together: Combination | None = Field(
        default=None, description="What to apply in one rewrite, if several belong together."
    )


@dataclass(frozen=True)
class Inquiry:
    """What the proposer is asked about: the kernel `target` of a `candidate` with this `profile`.
    `floor_bytes` is the least memory traffic of the task, in bytes. `applied` are the techniques that led to
    the candidate. `again` counts how often the search has used up all techniques offered for this kernel.
    `open` names techniques that were proposed earlier in this run and are still to be tried on it."""

    candidate: Candidate
    target: Target
    profile: Profile
    floor_bytes: int
    applied: tuple[str, ...] = ()
    again: int = 0
    open: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """The text that identifies the question in the run: the kernel's name, its performance state's name,
        a hash of the code of the kernel and of all functions that it calls, and, unless it is 0, how often
        all offered techniques have been used up (`again`)."""
        parts = parts_of(self.candidate.source)
        names = used_by(parts, {self.target.kernel})
        text = "".join(part.text for part in parts if part.name in names)
        digest = hashlib.sha256(text.encode()).hexdigest()[:12]
        key = f"{self.target.kernel}/{self.target.state.name}/{digest}"
        return f"{key}/again{self.again}" if self.again else key


@dataclass(frozen=True)
class Proposed:
    """The proposer's answer, in which a language model suggests techniques for a kernel. `new` are the
    techniques, with their predicted speedups. If the model also says that some should be applied together in
    one step, a recipe of those, with a prediction of its own, follows as the last entry. `inapplicable` are
    names of known techniques that, as the model says, cannot be applied to this code or are applied in it
    already."""

    new: list[Optimization]
    inapplicable: frozenset[str] = frozenset()


def propose(scene: Scene, inquiry: Inquiry) -> Proposed:
    """Asks the model, with `scene` as the context for the prompt, about the kernel of `inquiry`. Returns the
    techniques that it proposes, with predicted speedups, and the names of known techniques that it calls
    inapplicable there; none of either if it has no usable answer. A run asks once for each `Inquiry.key`:
    later calls return the recorded answer."""
    answer = scene.asker.ask(proposer_question(scene, inquiry))
    if answer is None:
        return Proposed([])
    most = scene.possible_speedup(inquiry.candidate.code)
    return Proposed(usable(answer, UNTIMED if most is None else most), frozenset(answer.inapplicable))


def proposer_question(scene: Scene, inquiry: Inquiry) -> Question[Proposals]:
    """Returns the question that asks the model for new techniques for the kernel of `inquiry`. The prompt,
    which is made from `scene`, lists the techniques that the knowledge base has for the kernel's performance
    state and for similar ones."""
    target, candidate = inquiry.target, inquiry.candidate
    around = scene.around(target.state)
    known = scene.techniques(target.state, inquiry.applied, target.family)[:KNOWN]
    beyond = only_on_hardware() & {one.technique for one in known} if scene.modelled else ()
    return Question(
        role="proposer",
        key=inquiry.key,
        system=scene.change_contract,
        template="proposer.md",
        sections={
            "most": str(MOST),
            "kernel": target.kernel,
            "reference": [Piece(reference(scene.task), REFERENCE)],
            "state": state_text(target.state, around),
            "times": scene.times(candidate.code),
            "digest": scene.profile(inquiry.profile, inquiry.floor_bytes, target.kernel),
            "known": technique_pieces(known) or "Nothing yet.",
            "recipes": recipe_pieces(scene, target, inquiry.applied),
            "beyond": ", ".join(sorted(beyond)),
            "open": ", ".join(inquiry.open),
            "again": "yes" if inquiry.again else "",
            "history": scene.history(candidate.code, around.name or target.state.name, target.kernel),
            "gpu": scene.gpu,
            "source": view("candidate", candidate.source, [target.kernel]).pieces,
        },
        schema=Proposals,
        prompt_tokens=scene.prompt_tokens,
    )


def technique_name(text: str) -> str | None:
    """Returns `text` as the name of a technique, in lower case, with underscores for other characters. None
    if it cannot be one: a name has 3 to 60 characters and begins with a letter."""
    name = re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")
    return name if NAME.fullmatch(name) else None


def usable(answer: Proposals, most: float) -> list[Optimization]:
    """Returns the techniques in the model's answer, at most three (MOST). Names are normalized (see
    `technique_name`) and invalid ones dropped; of equal names the last counts. If the answer names techniques
    to apply together, their recipe comes last. Predicted speedups are limited to the range from 0.1 to
    `most`, the speedup at which the candidate would be as fast as the roofline floor allows."""
    by_name: dict[str, Optimization] = {}
    for proposal in answer.proposals[:MOST]:
        name = technique_name(proposal.technique)
        if name is not None:
            words = proposal.description.strip()[:600]
            by_name[name] = _optimization(name, words, proposal.predicted, most)
    recipe = Recipe.of(_names(answer.together.techniques)) if answer.together else None
    if recipe is not None and answer.together is not None:
        by_name[str(recipe)] = _optimization(str(recipe), "", answer.together.predicted, most)
    return list(by_name.values())


def _names(techniques: Sequence[str]) -> list[str]:
    """Of `techniques`, the texts that can be names of techniques, in lower case with underscores."""
    return [name for text in techniques if (name := technique_name(text)) is not None]


def _optimization(name: str, description: str, predicted: float, most: float) -> Optimization:
    kept = min(max(most, LEAST), max(LEAST, predicted))
    title = name.replace("_", " ")
    return Optimization(technique=name, title=title, description=description, predicted=kept)
