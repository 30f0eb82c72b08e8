"""The policy evaluator: which results differ from what was expected, and are worth an explanation."""

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


def instructive(scene: Scene, found: Sequence[Discrepancy], key: str) -> list[Discrepancy]:
    """The results in the order in which a model would look into them; all of them, as they were, where
    there is no usable answer. The numbers are measured, never a model's."""
    answer = scene.asker.ask(evaluator_question(found, key)) if found else None
    if answer is None:
        return list(found)
    return [found[number] for number in dict.fromkeys(answer.worth_explaining) if 0 <= number < len(found)]


def evaluator_question(found: Sequence[Discrepancy], key: str) -> Question[Instructive]:
    return Question(
        role="policy-evaluator",
        key=key,
        system=f"You judge what a search has learned. {RULE}",
        template="policy_evaluator.md",
        sections={"results": listed(found)},
        schema=Instructive,
    )
