"""The proposer: suggests techniques for a kernel beyond those known in its state."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import BaseModel, Field

from kernelblaster.knowledge.retrieval import known_state
from kernelblaster.policies.llm.asker import Question
from kernelblaster.policies.llm.gpu_words import only_on_hardware
from kernelblaster.policies.llm.knowledge_view import state_text, techniques
from kernelblaster.policies.llm.prompt import Piece
from kernelblaster.policies.llm.reference_words import reference
from kernelblaster.policies.llm.rewriting import REFERENCE
from kernelblaster.policies.llm.scene import Scene
from kernelblaster.policies.llm.source_view import view
from kernelblaster.records import Candidate, Optimization, Profile
from kernelblaster.records.target import Target

MOST = 3  # new techniques in one answer
KNOWN = 10  # known techniques that are listed
PREDICTED = (0.5, 8.0)  # what a prediction is kept within
NAME = re.compile(r"[a-z][a-z0-9_]{2,59}")


class Proposal(BaseModel):
    technique: str = Field(description="A general name in lower_case_with_underscores.")
    description: str = Field(description="What to do, in general terms.")
    predicted: float = Field(description="The speedup of the whole call by it alone; 1.0 is none.", gt=0)
    reason: str = Field(description="Why here.")


class Proposals(BaseModel):
    inapplicable: list[str] = Field(
        default_factory=list,
        description="Known techniques that cannot be applied to this kernel or are done here already.",
    )
    proposals: list[Proposal]


@dataclass(frozen=True)
class Proposed:
    """New techniques with the model's predicted speedups, and names of known techniques that it found
    inapplicable or already done."""

    new: list[Optimization]
    inapplicable: frozenset[str] = frozenset()


def propose(
    scene: Scene, candidate: Candidate, target: Target, profile: Profile, floor_bytes: int
) -> Proposed:
    """What the model proposes for the kernel `target` of a profiled candidate; empty if it has no usable
    answer. Asked once for each kernel name and state of a run: later calls return the recorded answer.
    `floor_bytes` is the least memory traffic of the task."""
    answer = scene.asker.ask(proposer_question(scene, candidate, target, profile, floor_bytes))
    if answer is None:
        return Proposed([])
    return Proposed(usable(answer.proposals[:MOST]), frozenset(answer.inapplicable))


def proposer_question(
    scene: Scene, candidate: Candidate, target: Target, profile: Profile, floor_bytes: int
) -> Question[Proposals]:
    """The question for new techniques for a kernel, with those that the knowledge base knows in its state."""
    content = scene.session.memory.now()
    name = known_state(content, target.state) or target.state.name
    known = techniques(content, name, scene.architecture, KNOWN)
    beyond = only_on_hardware() & {technique for technique, _ in known} if scene.modelled else ()
    return Question(
        role="proposer",
        key=f"{target.kernel}/{target.state.name}",
        system=scene.change_contract,
        template="proposer.md",
        sections={
            "most": str(MOST),
            "kernel": target.kernel,
            "reference": [Piece(reference(scene.task), REFERENCE)],
            "state": state_text(target.state, content, name),
            "times": scene.times(candidate.code),
            "digest": scene.profile(profile, floor_bytes, target.kernel),
            "known": [piece for _, pieces in known for piece in pieces] or "Nothing yet.",
            "beyond": ", ".join(sorted(beyond)),
            "history": scene.history(candidate.code, name, target.kernel),
            "gpu": scene.gpu,
            "source": view("candidate", candidate.source, [target.kernel]).pieces,
        },
        schema=Proposals,
        prompt_tokens=scene.prompt_tokens,
    )


def usable(proposals: Sequence[Proposal]) -> list[Optimization]:
    """The proposals as optimizations: names normalized to lower case with underscores, invalid ones dropped,
    the last of equal names kept, predicted speedups clamped to PREDICTED."""
    by_name: dict[str, Optimization] = {}
    for proposal in proposals:
        name = re.sub(r"[^a-z0-9]+", "_", proposal.technique.lower()).strip("_")
        if NAME.fullmatch(name):
            low, high = PREDICTED
            by_name[name] = Optimization(
                technique=name,
                title=name.replace("_", " "),
                description=proposal.description.strip()[:600],
                predicted=min(high, max(low, proposal.predicted)),
            )
    return list(by_name.values())
