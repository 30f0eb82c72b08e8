"""The policy evaluator, a role of the language model: it selects the results that differ from what the
knowledge base expected and are worth explaining, and says what they have in common."""

from collections.abc import Sequence

from pydantic import BaseModel, Field

from kernelblaster.policies.llm.asker import Question
from kernelblaster.policies.llm.data import RULE, one_line
from kernelblaster.policies.llm.discrepancies import listed
from kernelblaster.policies.llm.scene import Scene
from kernelblaster.policies.policy import Discrepancy, PolicyEvaluation

LETTERS = 300  # of a remark
FEWEST = 2  # results to compare; with fewer there is nothing to choose


class Instructive(BaseModel):
    worth_explaining: list[int] = Field(description="Numbers of results, the most instructive first.")
    remark: str = Field(default="", description="What they have in common, in a sentence; may be empty.")


def evaluate_by_model(scene: Scene, discrepancies: Sequence[Discrepancy], key: str) -> PolicyEvaluation:
    """Asks the model which of the `discrepancies` (expected against measured gains) are worth explaining.
    Returns these in the model's order, with its remark on what they have in common. Returns all, in the given
    order and without a remark, if the model gives no usable answer. It is not asked if there are fewer than
    two (FEWEST) or none is surprising. `scene` is the context for the prompt; `key` identifies the question
    in the run."""
    asked = len(discrepancies) >= FEWEST and any(found.surprising for found in discrepancies)
    answer = scene.asker.ask(evaluator_question(discrepancies, key)) if asked else None
    if answer is None:
        return PolicyEvaluation(list(discrepancies))
    chosen = [n for n in dict.fromkeys(answer.worth_explaining) if 0 <= n < len(discrepancies)]
    return PolicyEvaluation([discrepancies[n] for n in chosen], one_line(answer.remark, LETTERS))


def evaluator_question(discrepancies: Sequence[Discrepancy], key: str) -> Question[Instructive]:
    """Returns the question that asks a language model which of these results, whose speedup was not the
    predicted one, are worth explaining. Its answer lists their positions in `discrepancies`, from 0. `key`
    identifies the question in the run, so that a resumed run does not ask it again."""
    return Question(
        role="policy-evaluator",
        key=key,
        system=f"You judge what a search has learned. {RULE}",
        template="policy_evaluator.md",
        sections={"results": listed(discrepancies)},
        schema=Instructive,
    )
