"""Writes the part of a prompt on what the run has tried before, with the results: on the same candidate, on
the way to it, and in the same performance state."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kernelblaster.policies.llm.data import one_line
from kernelblaster.policies.llm.feedback import outcome_feedback
from kernelblaster.policies.llm.prompt import Piece
from kernelblaster.records import Evaluation, Step
from kernelblaster.records.outcome import CORRECT

SHOWN = 8
HERE, ON_THE_WAY, FAILED, IN_STATE = 60, 50, 38, 30  # importance
LETTERS = 160  # of what was said of a step


@dataclass(frozen=True)
class Tried:
    """What a run has tried so far, from which prompts describe its history. `steps` are its steps in order;
    `evaluations` has what the judge found of each candidate, and `summaries` what its author said of it, both
    by the candidate's code (16 hexadecimal digits)."""

    steps: Sequence[Step]
    evaluations: Mapping[str, Evaluation]
    summaries: Mapping[str, str]


def history(tried: Tried, code: str, state: str, kernel: str) -> list[Piece]:
    """Returns lines for a prompt on earlier steps of the run in `tried`, each with its result, in four
    groups: (1) steps that changed the candidate `code` (16 hexadecimal digits); (2) steps by which the run
    came from its first candidate to this one; (3) steps that changed other candidates and failed; (4) steps
    that changed other candidates, did not fail, and were made in the performance state named `state`. Each
    group has at most eight lines (SHOWN), the latest step first. `kernel` is the kernel that the prompt is
    about; a line names the kernel that its step changed only if that is another one."""
    way = path_steps(tried.steps, code)
    here = [step for step in tried.steps if step.parent == code]
    others = [step for step in tried.steps if step.parent != code and step not in way]
    failed = [step for step in others if step.failure is not None]
    alike = [step for step in others if step.failure is None and step.state == state]
    return [
        Piece(_line(tried, step, where, kernel), importance - rank)
        for listed, where, importance in (
            (here[::-1], "on this source", HERE),
            (way, "on the way to this source", ON_THE_WAY),
            (failed[::-1], "on another candidate", FAILED),
            (alike[::-1], "on another candidate", IN_STATE),
        )
        for rank, step in enumerate(listed[:SHOWN])
    ]


def path_steps(steps: Sequence[Step], code: str) -> list[Step]:
    """Returns the steps, among `steps`, by which the run came from its first candidate to the candidate
    `code` (16 hexadecimal digits), the last one first. Empty if `code` is the first candidate."""
    by_child = {step.child: step for step in reversed(steps) if step.taken and step.child != step.parent}
    way: list[Step] = []
    while (step := by_child.get(code)) is not None and step not in way:
        way.append(step)
        code = step.parent
    return way


def _line(tried: Tried, step: Step, where: str, kernel: str) -> str:
    """The prompt's line on one step of the run so far (`tried`); `where` says in words how the step relates
    to the candidate that the prompt is about, and its kernel is named if it is not `kernel`."""
    changed = f", {one_line(step.kernel, 60)}" if step.kernel not in ("", kernel) else ""
    said = one_line(tried.summaries.get(step.child, ""), LETTERS)
    ended = _ended(step, tried.evaluations.get(step.child)) + (f". Done: {said}" if said else "")
    return f"- {one_line(step.technique, 80)}{changed}, {where}: {ended}"


def _ended(step: Step, evaluation: Evaluation | None) -> str:
    """The result of a step in words: the speedup with the expected one, or why it failed. `evaluation` is
    that of the step's new candidate, None if it was not judged."""
    if step.failure is None:
        return f"{step.speedup:.2f}x (expected {step.predicted:.2f}x)"
    if evaluation is None or isinstance(evaluation.outcome, CORRECT):
        return step.failure
    return one_line(outcome_feedback(evaluation.outcome, ""), 160)
