"""What was tried from the same candidate, on the path to it and in the same state, with results."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kernelblaster.policies.llm.data import one_line
from kernelblaster.policies.llm.feedback import outcome_feedback
from kernelblaster.policies.llm.prompt import Piece
from kernelblaster.records import Evaluation, Step
from kernelblaster.records.outcome import CORRECT

SHOWN = 8
HERE, ON_THE_WAY, IN_STATE = 60, 50, 30  # importance
LETTERS = 160  # of what was said of a step


@dataclass(frozen=True)
class Tried:
    """The steps of a run; the evaluations of candidates, and their authors' summaries, both by `code`."""

    steps: Sequence[Step]
    evaluations: Mapping[str, Evaluation]
    summaries: Mapping[str, str]


def history(tried: Tried, code: str, state: str, kernel: str) -> list[Piece]:
    """One line per step: those from this candidate, those that led to it, then others in its state, latest
    first. Kernels are named only if they differ from `kernel`."""
    way = _way(tried.steps, code)
    here = [step for step in tried.steps if step.parent == code]
    alike = [s for s in tried.steps if s.state == state and s.parent != code and s not in way]
    return [
        Piece(_line(tried, step, where, kernel), importance - rank)
        for listed, where, importance in (
            (here[::-1], "on this source", HERE),
            (way, "on the way to this source", ON_THE_WAY),
            (alike[::-1], "on another candidate", IN_STATE),
        )
        for rank, step in enumerate(listed[:SHOWN])
    ]


def _way(steps: Sequence[Step], code: str) -> list[Step]:
    """The steps from the first candidate to this one, last first."""
    by_child = {step.child: step for step in reversed(steps) if step.taken and step.child != step.parent}
    way: list[Step] = []
    while (step := by_child.get(code)) is not None and step not in way:
        way.append(step)
        code = step.parent
    return way


def _line(tried: Tried, step: Step, where: str, kernel: str) -> str:
    changed = f", {one_line(step.kernel, 60)}" if step.kernel not in ("", kernel) else ""
    said = one_line(tried.summaries.get(step.child, ""), LETTERS)
    ended = _ended(step, tried.evaluations.get(step.child)) + (f". Done: {said}" if said else "")
    return f"- {one_line(step.technique, 80)}{changed}, {where}: {ended}"


def _ended(step: Step, evaluation: Evaluation | None) -> str:
    if step.failure is None:
        return f"{step.speedup:.2f}x (expected {step.predicted:.2f}x)"
    if evaluation is None or isinstance(evaluation.outcome, CORRECT):
        return step.failure
    return one_line(outcome_feedback(evaluation.outcome, ""), 160)
