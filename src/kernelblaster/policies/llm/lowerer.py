"""The lowerer, a role of the language model: applies a technique that is described in words, or several at
once, to a kernel's code."""

from dataclasses import dataclass

from kernelblaster.knowledge.retrieval import Neighbourhood
from kernelblaster.policies.llm.exemplar_view import exemplar_pieces
from kernelblaster.policies.llm.facts import constants
from kernelblaster.policies.llm.gpu_words import only_on_hardware
from kernelblaster.policies.llm.knowledge_view import results, state_text, technique_text
from kernelblaster.policies.llm.prompt import Piece
from kernelblaster.policies.llm.reference_words import computation
from kernelblaster.policies.llm.rewriting import REFERENCE, RewritingTask, Rewritten, mend, rewrite
from kernelblaster.policies.llm.scene import Scene
from kernelblaster.records import Candidate, Profile
from kernelblaster.records.recipe import is_recipe, techniques_of
from kernelblaster.records.target import Target


@dataclass(frozen=True)
class Lowering:
    """A request to apply `technique` to the kernel `target` of the candidate `parent`. The technique may be a
    recipe (several techniques in one step). `profile` is the parent's profile; `floor_bytes` is the least
    memory traffic of the task, in bytes. Where several answers to the same request are wanted, `sample`
    numbers them from 0."""

    parent: Candidate
    technique: str
    target: Target
    profile: Profile
    floor_bytes: int
    sample: int = 0

    @property
    def key(self) -> str:
        """The text that identifies this request in the run's log: the parent's code, the kernel, the
        technique, and the sample unless it is 0."""
        key = f"{self.parent.code}/{self.target.kernel}/{self.technique}"
        return f"{key}/sample{self.sample}" if self.sample else key


def lower(scene: Scene, lowering: Lowering, described: dict[str, str]) -> Rewritten:
    """Asks the model to apply the technique of `lowering` to its candidate. Returns the new source with the
    model's summary; if the technique is a recipe, also the names of those of its techniques that were left
    out. The result's `source` is None if the model declined or gave no usable answer. `scene` is the context
    for the prompt; `described` maps techniques that the model itself proposed in this run to their
    descriptions."""
    work = _work(scene, lowering, lowering.key, lowering.parent)
    return rewrite(scene, work, "lowerer.md", sections(scene, lowering, described))


def sections(scene: Scene, lowering: Lowering, described: dict[str, str]) -> dict[str, str | list[Piece]]:
    """Returns what the prompt for the request `lowering` contains, which asks the model to apply a technique:
    a mapping from the names of the template's sections to their texts (or lists of pieces, of which a long
    prompt may leave out some). The section with the candidate's source is not among them. `scene` has the
    task, the GPU and the history. `described` maps techniques that the model itself proposed in this run to
    their descriptions."""
    target, around = lowering.target, scene.around(lowering.target.state)
    names = techniques_of(lowering.technique)
    words = [technique_words(around, name, scene, target.family, described.get(name, "")) for name in names]
    if is_recipe(lowering.technique):
        words += results(around.precedents(lowering.technique))
    unable = sorted(only_on_hardware().intersection(names)) if scene.modelled else []
    if unable:
        words.append(f"  The emulated device has no instructions for {', '.join(unable)}.")
    return {
        "kernel": target.kernel,
        "several": "yes" if len(names) > 1 else "",
        "technique": "\n".join(words),
        "state": state_text(target.state, around),
        "times": scene.times(lowering.parent.code),
        "digest": scene.profile(lowering.profile, lowering.floor_bytes, target.kernel),
        "history": scene.history(lowering.parent.code, around.name or target.state.name, target.kernel),
        "exemplars": exemplar_pieces(around, target.family, names, lowering.parent.source),
        "gpu": scene.gpu,
        "reference": [Piece(computation(scene.task), REFERENCE)],
        "constants": constants(lowering.parent.source),
    }


def mend_lowering(scene: Scene, lowering: Lowering, failed: Candidate, said: str) -> Rewritten:
    """Asks the model to correct `failed`, the candidate that it wrote for the request `lowering`. `said` is
    the judge's feedback on it, `scene` the context for the prompt. The result's `source` is the corrected
    source, or None if the model gave none; its summary is the failed candidate's, followed by what was
    corrected."""
    work = _work(scene, lowering, f"{lowering.key}/{failed.code}", failed)
    done = scene.summaries.get(failed.code, "")
    what = f"the same computation with {lowering.technique} applied to {lowering.target.kernel}"
    mended = mend(scene, work, f"{what} ({done})" if done else what, said)
    summary = f"{done} Then corrected: {mended.summary}" if done else mended.summary
    return Rewritten(mended.source, summary, mended.declined, mended.not_applied)


def _work(scene: Scene, lowering: Lowering, key: str, start: Candidate) -> RewritingTask:
    """What to rewrite for `lowering`: the source of the candidate `start`, around the kernel to be changed;
    `key` identifies the questions in the run."""
    kernels = [lowering.target.kernel]
    return RewritingTask("lowerer", key, start.source, kernels, scene.change_contract, lowering.sample)


def technique_words(
    around: Neighbourhood, technique: str, scene: Scene, family: str | None, described: str
) -> str:
    """Returns a prompt's text on `technique`: what the knowledge base has on it in the kernel's performance
    state and in similar ones (`around`). The speedups in it are predicted for the run's GPU, which `scene`
    has, and for kernels of a `family` (kind of computation; None: any). `described` is the description by the
    model that proposed the technique in this run, or empty; it is used if the knowledge base does not have
    the technique or does not describe it."""
    known = around.techniques(scene.architecture, (), family)
    one = next((one for one in known if one.technique == technique), None)
    if one is None:
        return f"{technique}: {described}" if described else technique.replace("_", " ")
    text = technique_text(one)
    return text if one.scored.optimization.description or not described else f"{text}\n  {described}"
