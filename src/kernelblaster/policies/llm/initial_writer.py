"""The initial writer, a role of the language model: it writes a first correct candidate from the task's
reference."""

from pydantic import BaseModel, Field

from kernelblaster.errors import KernelBlasterError
from kernelblaster.policies.llm.asker import Question
from kernelblaster.policies.llm.data import one_line
from kernelblaster.policies.llm.feedback import feedback
from kernelblaster.policies.llm.reference_words import module_rules, reference
from kernelblaster.policies.llm.rewriting import RewritingTask, mend
from kernelblaster.policies.llm.scene import Scene
from kernelblaster.policies.llm.source import kernel_names
from kernelblaster.records import Candidate
from kernelblaster.records.outcome import CORRECT

MENDED = 3  # times that a first candidate may be corrected
ORIGIN = "llm: initial"


class NoFirstCandidate(KernelBlasterError):
    """The model wrote no first candidate that the judge found correct, even after corrections. The message
    says what was wrong with the last one."""


class FirstDraft(BaseModel):
    """A model's answer that is a whole first candidate: its CUDA `source`, and a `summary` of how the work is
    divided among its kernels."""

    summary: str = Field(description="How the work is divided among kernels.")
    source: str = Field(description="The whole CUDA C++ file.")


def draft(scene: Scene, seed: int = 0) -> str | None:
    """Returns the source that the model writes for a first candidate of the task, not yet judged; None if
    there is no usable answer. `scene` is the context for the prompt; a different `seed` gives another
    draft."""
    answer = scene.asker.ask(draft_question(scene, seed))
    return answer.source if answer else None


def draft_question(scene: Scene, seed: int = 0) -> Question[FirstDraft]:
    """Returns the question that asks the model for a first candidate, a whole source written from the task's
    reference. `scene` is the context for the prompt; a different `seed` asks for another draft."""
    return Question(
        role="initial-writer",
        key=f"draft{seed}",
        system=scene.contract,
        template="initial_writer.md",
        sections={
            "reference": reference(scene.task),
            "gpu": scene.gpu,
            "module_rules": module_rules(scene.task),
        },
        schema=FirstDraft,
        seed=seed,
    )


def write_initial(scene: Scene) -> Candidate:
    """Returns a first candidate for the task of `scene` that the judge found correct: the model's draft,
    corrected by the model up to three times (MENDED) with the judge's feedback. Raises `NoFirstCandidate` if
    it is still not correct then, or if an answer is unusable."""
    source = draft(scene)
    said = "the model gave no usable answer"
    for number in range(MENDED + 1):
        if source is None:
            break
        candidate = Candidate(source=source, origin=ORIGIN)
        evaluation = scene.session.judging.judge(candidate)
        if isinstance(evaluation.outcome, CORRECT):
            return candidate
        said = feedback(evaluation, source)
        if number == MENDED:
            break
        work = RewritingTask("initial-writer", candidate.code, source, kernel_names(source), scene.contract)
        source = mend(scene, work, "a first correct candidate for the task", said).source
    raise NoFirstCandidate(
        f"{scene.task.name}: the model did not write a correct first candidate: {one_line(said, 400)}"
    )
