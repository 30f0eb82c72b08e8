"""The gap analyst, a role of the language model: it explains why measured gains differ from those that the
knowledge base expected."""

from dataclasses import replace
from typing import get_args

from pydantic import BaseModel

from kernelblaster.knowledge.content import Content
from kernelblaster.policies.expert.gaps import REASONS, explain_gap
from kernelblaster.policies.llm.asker import Question
from kernelblaster.policies.llm.data import RULE, one_line
from kernelblaster.policies.llm.discrepancies import ResultsView, listed
from kernelblaster.policies.llm.scene import Scene
from kernelblaster.policies.policy import Cause, Gap, PolicyEvaluation

LETTERS = 400


class Explained(BaseModel):
    number: int
    cause: Cause
    sentence: str


class Explanations(BaseModel):
    gaps: list[Explained]


def explain_by_model(scene: Scene, evaluation: PolicyEvaluation, now: Content, key: str) -> list[Gap]:
    """Asks the model why measured gains differ from expected ones. Returns one explanation (gap) for each
    surprising discrepancy in `evaluation`, in the same order. The cause and the sentence of a gap are the
    model's; the sentence is also the lesson to remember. For a discrepancy that the model's answer does not
    explain, the gap is the one that the rules of the built-in expert policy find (`explain_gap`). The metrics
    that changed are always the measured ones. `scene` is the context for the prompt, `now` the current
    knowledge base; `key` identifies the question in the run."""
    evaluation = replace(evaluation, discrepancies=[d for d in evaluation.discrepancies if d.surprising])
    expert = [explain_gap(discrepancy, now) for discrepancy in evaluation.discrepancies]
    answer = scene.asker.ask(analyst_question(scene, evaluation, now, key)) if expert else None
    explained = {one.number: one for one in answer.gaps} if answer else {}
    return [
        replace(gap, cause=one.cause, sentence=said, lesson=said)
        if (one := explained.get(number)) is not None and (said := one_line(one.sentence, LETTERS))
        else gap
        for number, gap in enumerate(expert)
    ]


def analyst_question(
    scene: Scene, evaluation: PolicyEvaluation, now: Content, key: str
) -> Question[Explanations]:
    """Returns the question that asks the model for the causes of the discrepancies (expected against measured
    gains) in `evaluation`. Its answer refers to a discrepancy by its position, from 0. `scene` is the context
    for the prompt. `now` is the knowledge base, from which the names of performance states are taken; `key`
    identifies the question in the run."""
    return Question(
        role="gap-analyst",
        key=key,
        system=f"You explain why GPU kernels became faster or slower. {RULE}",
        template="gap_analyst.md",
        sections={
            "results": listed(
                evaluation.discrepancies, ResultsView(scene.summaries, scene.session.judging.source, now)
            ),
            "remark": one_line(evaluation.remark, LETTERS),
            "gpu": scene.gpu,
            "causes": "\n".join(f"- {cause}: {REASONS[cause]}" for cause in get_args(Cause)),
        },
        schema=Explanations,
    )
