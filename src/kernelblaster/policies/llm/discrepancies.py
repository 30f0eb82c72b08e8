"""What was expected of techniques against what they gained, as lines of a prompt."""

from collections.abc import Sequence
from math import exp

from kernelblaster.policies.expert.gaps import contrast_of
from kernelblaster.policies.llm.data import one_line
from kernelblaster.policies.llm.feedback import outcome_feedback
from kernelblaster.policies.llm.prompt import NEEDED, Piece
from kernelblaster.policies.policy import Discrepancy, Sample

MOVED = 4  # metrics that are told of one


def listed(discrepancies: Sequence[Discrepancy], *, contrasts: bool) -> list[Piece]:
    """Numbered from 0; the first are never left out."""
    return [
        Piece(_text(number, found, contrasts), NEEDED if number < 3 else max(1, 60 - number))
        for number, found in enumerate(discrepancies)
    ]


def _text(number: int, found: Discrepancy, contrasts: bool) -> str:
    got = "no valid candidate" if found.measured is None else f"{exp(found.measured):.2f}x"
    failed = ", ".join(f"{count} {kind}" for kind, count in sorted(found.failures.items()))
    attempts = f"{found.count} attempts" + (f", of them {failed}" if failed else "")
    lines = [
        f"{number}. {one_line(found.technique, 80)} in {one_line(found.state, 80)}: expected "
        f"{exp(found.expected):.2f}x, got {got}; {attempts}"
    ]
    return "\n".join([*lines, *(_evidence(found) if contrasts else [])])


def _evidence(found: Discrepancy) -> list[str]:
    """Of the sample that differs most: what the profiles show, or how it failed."""
    valid = [s for s in found.samples if isinstance(s.step.result, float)]
    if not valid:
        return [f"   {one_line(outcome_feedback(s.child.outcome, ''), 240)}" for s in found.samples[:1]]
    sample = max(valid, key=lambda s: abs(_gain(s) - found.expected))
    before = f"after {one_line(', '.join(sample.step.before), 120)}" if sample.step.before else "at first"
    contrast = contrast_of(sample)
    if contrast is None:
        return [f"   {before}; no profile of both"]
    own = "" if contrast.own_speedup is None else f", itself {contrast.own_speedup:.2f}x as fast"
    moved = [f"{name} {old:.2f} to {new:.2f}" for name, (old, new) in list(contrast.moved.items())[:MOVED]]
    states = f"{contrast.before.state.name}, then {contrast.after.state.name}"
    return [
        f"   {before}: {one_line(sample.step.kernel, 60)}, {contrast.before.share:.0%} of the call{own}; "
        f"{states}; {', '.join(moved) or 'no metric moved'}"
    ]


def _gain(sample: Sample) -> float:
    assert isinstance(sample.step.result, float)
    return sample.step.result
