"""Writes the feedback that a model gets on a candidate that the judge did not accept: short, with
locations."""

import re

from kernelblaster.policies.llm.data import one_line
from kernelblaster.policies.llm.reference_words import rival_of
from kernelblaster.records import (
    Abandoned,
    CompileFailed,
    Evaluation,
    Incorrect,
    Outcome,
    Rejected,
    RuntimeFailed,
    TimedOut,
    Unsupported,
)

ERRORS = 3  # of a compiler
LETTERS = 400  # of each finding
# An error that is this small, and at most so many times beyond its bound, is one of precision.
NEARLY, BEYOND = 1e-3, 1e4
ALLOWED = re.compile(r"error ([\d.e+-]+), allowed ([\d.e+-]+[\de])")
LOCATED = re.compile(r"candidate\.cu\((\d+)\): (?:fatal )?error:? ?(.*)")


def feedback(evaluation: Evaluation, source: str) -> str:
    """Returns why the judge did not accept a candidate, as its `evaluation` says, in words for the model that
    wrote it: compiler errors with the lines that they point to, the wrong values, or the broken rule.
    `source` is the candidate's source, from which the lines are quoted."""
    return outcome_feedback(evaluation.outcome, source, rival_of(evaluation.timing))


def outcome_feedback(outcome: Outcome, source: str, rival: str = "PyTorch") -> str:
    """Returns what the judge's `outcome` says of a candidate, in words for the model that wrote it. For a
    candidate that failed, they say why: compiler errors, wrong values, or the broken rule; for a correct one,
    its speedup over the baseline, which is called `rival`. `source` is the candidate's source, from which
    lines are quoted; if it is empty, none are."""
    match outcome:
        case CompileFailed(reason=reason, log=log):
            said = "It does not compile:\n" + (_errors(log, source) or f"- {one_line(reason, LETTERS)}")
        case Incorrect(reason=reason, evidence=evidence):
            what = "It is not precise enough" if is_imprecise(evidence) else "It computes something else"
            said = f"{what} ({reason}): {one_line(evidence, LETTERS)}."
        case RuntimeFailed(reason=reason, evidence=evidence):
            said = f"It fails when it runs: {one_line(reason, LETTERS)} ({one_line(evidence, LETTERS)})."
        case Rejected(reason=reason, evidence=evidence):
            said = f"It breaks a rule ({reason}): {one_line(evidence, LETTERS)}."
        case TimedOut(stage=stage, limit_s=limit_s):
            said = f"It took longer than {limit_s:g} s ({stage})."
        case Unsupported(reason=reason):
            said = f"The emulated device cannot run it: {one_line(reason, LETTERS)}. Write it more plainly."
        case Abandoned(reason=reason):
            said = f"It could not be judged: {one_line(reason, LETTERS)}. Write it more plainly."
        case _:
            said = f"It is correct: {outcome.kind}, {outcome.speedup.estimate:.2f}x of {rival}'s speed."
    return said


def is_imprecise(evidence: str) -> bool:
    """Whether the evidence of a wrong result says that all numbers are nearly right, and only less precise
    than is allowed."""
    told = ALLOWED.search(evidence)
    return told is not None and float(told[1]) < min(NEARLY, BEYOND * float(told[2]))


def _errors(log: str, source: str) -> str:
    """The first ERRORS errors in a compiler's log that have a line number, each with that line of `source`;
    empty if the log has none."""
    lines = source.splitlines()
    quoted = []
    for number, words in LOCATED.findall(log)[:ERRORS]:
        at = int(number)
        code = lines[at - 1].strip() if 0 < at <= len(lines) else ""
        quoted.append(f"- line {at}: {one_line(words, LETTERS)}" + (f"\n    {code}" if code else ""))
    return "\n".join(quoted)
