"""The lowerer: applies a technique, described in words, to a kernel's code."""

from dataclasses import dataclass

from kernelblaster.knowledge.content import Content
from kernelblaster.knowledge.retrieval import known_state
from kernelblaster.policies.llm.facts import constants
from kernelblaster.policies.llm.gpu_words import only_on_hardware
from kernelblaster.policies.llm.knowledge_view import state_text, technique_text
from kernelblaster.policies.llm.prompt import Piece
from kernelblaster.policies.llm.reference_words import computation
from kernelblaster.policies.llm.rewriting import REFERENCE, RewritingTask, Rewritten, mend, rewrite
from kernelblaster.policies.llm.scene import Scene
from kernelblaster.records import Candidate, Profile
from kernelblaster.records.target import Target


@dataclass(frozen=True)
class Lowering:
    """The job of applying `technique` to the kernel `target` of the candidate `parent`. `profile` is the
    parent's; `floor_bytes` is the least memory traffic that the task needs."""

    parent: Candidate
    technique: str
    target: Target
    profile: Profile
    floor_bytes: int

    @property
    def key(self) -> str:
        """Identifies the question about this lowering in the run."""
        return f"{self.parent.code}/{self.target.kernel}/{self.technique}"


def lower(scene: Scene, lowering: Lowering, described: str) -> Rewritten:
    """The parent's source with the technique applied by the model; `source` is None if it declined or gave no
    usable answer. `described` is the technique's description by the model that proposed it in this run; empty
    if none did."""
    work = _work(scene, lowering, lowering.key, lowering.parent)
    return rewrite(scene, work, "lowerer.md", sections(scene, lowering, described))


def sections(scene: Scene, lowering: Lowering, described: str) -> dict[str, str | list[Piece]]:
    """The sections of the lowerer's prompt, except the source; `described` as for `lower`."""
    target, content = lowering.target, scene.session.memory.now()
    name = known_state(content, target.state) or target.state.name
    technique = technique_words(content, name, lowering.technique, scene.architecture, described)
    if scene.modelled and lowering.technique in only_on_hardware():
        technique += "\n  The emulated device has no instructions for it."
    return {
        "kernel": target.kernel,
        "technique": technique,
        "state": state_text(target.state, content, name),
        "times": scene.times(lowering.parent.code),
        "digest": scene.profile(lowering.profile, lowering.floor_bytes, target.kernel),
        "history": scene.history(lowering.parent.code, name, target.kernel),
        "gpu": scene.gpu,
        "reference": [Piece(computation(scene.task), REFERENCE)],
        "constants": constants(lowering.parent.source),
    }


def mend_lowering(scene: Scene, lowering: Lowering, failed: Candidate, said: str) -> Rewritten:
    """Ask the model to correct `failed`, a candidate that it wrote for this lowering; `said` is the judge's
    feedback on it."""
    work = _work(scene, lowering, f"{lowering.key}/{failed.code}", failed)
    what = f"the same computation with {lowering.technique} applied to {lowering.target.kernel}"
    return mend(scene, work, what, said)


def _work(scene: Scene, lowering: Lowering, key: str, start: Candidate) -> RewritingTask:
    """The rewriting task that starts from the source of `start`; `key` identifies its questions in the
    run."""
    return RewritingTask("lowerer", key, start.source, [lowering.target.kernel], scene.change_contract)


def technique_words(content: Content, state: str, technique: str, architecture: str, described: str) -> str:
    """What the prompt says about a technique in a state. Its description is the knowledge base's for this
    state, else `described` (by the model that proposed it; may be empty), else that of another state."""
    entry = content.entries.get(state, {}).get(technique)
    if entry is None:
        return f"{technique}: {described}" if described else technique.replace("_", " ")
    if not entry.description:
        elsewhere = (e[technique].description for e in content.entries.values() if technique in e)
        text = described or next((words for words in elsewhere if words), "")
        entry = entry.model_copy(update={"description": text})
    return technique_text(entry.scored(architecture), entry.evidence)
