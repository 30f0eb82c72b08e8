"""The policy evaluator: selects results that differ from predictions and are worth explaining."""

from collections.abc import Sequence

from pydantic import BaseModel, Field

from kernelblaster.policies.llm.asker import Question
from kernelblaster.policies.llm.data import RULE
from kernelblaster.policies.llm.discrepancies import listed
from kernelblaster.policies.llm.scene import Scene
from kernelblaster.policies.policy import Discrepancy


class Instructive(BaseModel):
    worth_explaining: list[int] = Field(description="Numbers of results, the most instructive first.")
    remark: str


def instructive(scene: Scene, discrepancies: Sequence[Discrepancy], key: str) -> list[Discrepancy]:
    """The discrepancies that the model finds worth explaining, in its order; all of them, in the given order,
    if there is no usable answer. The figures in them stay the measured ones. `key` identifies the question in
    the run."""
    answer = scene.asker.ask(evaluator_question(discrepancies, key)) if discrepancies else None
    if answer is None:
        return list(discrepancies)
    return [
        discrepancies[number]
        for number in dict.fromkeys(answer.worth_explaining)
        if 0 <= number < len(discrepancies)
    ]


def evaluator_question(discrepancies: Sequence[Discrepancy], key: str) -> Question[Instructive]:
    """The question which of these discrepancies are worth explaining; an answer has their positions."""
    return Question(
        role="policy-evaluator",
        key=key,
        system=f"You judge what a search has learned. {RULE}",
        template="policy_evaluator.md",
        sections={"results": listed(discrepancies)},
        schema=Instructive,
    )
