"""The gap analyst: why techniques gained something else than expected."""

from collections.abc import Sequence
from typing import get_args

from pydantic import BaseModel

from kernelblaster.knowledge.content import Content
from kernelblaster.policies.expert.gaps import REASONS, explain_gap
from kernelblaster.policies.llm.asker import Question
from kernelblaster.policies.llm.data import RULE, one_line
from kernelblaster.policies.llm.discrepancies import listed
from kernelblaster.policies.llm.scene import Scene
from kernelblaster.policies.policy import Cause, Discrepancy, Gap

LETTERS = 400


class Explained(BaseModel):
    number: int
    cause: Cause
    sentence: str


class Explanations(BaseModel):
    gaps: list[Explained]


def explain_by_model(scene: Scene, found: Sequence[Discrepancy], now: Content, key: str) -> list[Gap]:
    """A gap for each; those that the model does not explain, as the expert explains them. The metrics that
    moved are measured in any case."""
    expert = [explain_gap(discrepancy, now) for discrepancy in found]
    answer = scene.asker.ask(analyst_question(scene, found, key)) if found else None
    told = {one.number: one for one in answer.gaps} if answer else {}
    return [
        Gap(gap.discrepancy, one.cause, one_line(one.sentence, LETTERS), gap.moved)
        if (one := told.get(number)) is not None
        else gap
        for number, gap in enumerate(expert)
    ]


def analyst_question(scene: Scene, found: Sequence[Discrepancy], key: str) -> Question[Explanations]:
    return Question(
        role="gap-analyst",
        key=key,
        system=f"You explain why GPU kernels became faster or slower. {RULE}",
        template="gap_analyst.md",
        sections={
            "results": listed(found, scene.summaries),
            "gpu": scene.gpu,
            "causes": "\n".join(f"- {cause}: {REASONS[cause]}" for cause in get_args(Cause)),
        },
        schema=Explanations,
    )
