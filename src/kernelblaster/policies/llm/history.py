"""What was tried before from the same candidate, and in the same state, and how it ended."""

from collections.abc import Mapping, Sequence
from math import exp

from kernelblaster.policies.llm.data import one_line
from kernelblaster.policies.llm.feedback import outcome_feedback
from kernelblaster.policies.llm.prompt import Piece
from kernelblaster.records import Evaluation, Step
from kernelblaster.records.outcome import CORRECT

SHOWN = 8
HERE, IN_STATE = 60, 30  # importance


def history(
    steps: Sequence[Step], evaluations: Mapping[str, Evaluation], code: str, state: str
) -> list[Piece]:
    """A line for each, those from this very candidate first, then the latest."""
    here = [step for step in steps if step.parent == code]
    alike = [step for step in steps if step.parent != code and step.state == state]
    return [
        Piece(_line(step, evaluations.get(step.child)), importance - place)
        for listed, importance in ((here[::-1], HERE), (alike[::-1], IN_STATE))
        for place, step in enumerate(listed[:SHOWN])
    ]


def _line(step: Step, evaluation: Evaluation | None) -> str:
    where = f" on {one_line(step.kernel, 60)}" if step.kernel else ""
    return f"- {one_line(step.technique, 80)}{where}: {_ended(step, evaluation)}"


def _ended(step: Step, evaluation: Evaluation | None) -> str:
    if isinstance(step.result, float):
        return f"{exp(step.result):.2f}x (expected {step.predicted:.2f}x)"
    if evaluation is None or isinstance(evaluation.outcome, CORRECT):
        return step.result
    return one_line(outcome_feedback(evaluation.outcome, ""), 160)
