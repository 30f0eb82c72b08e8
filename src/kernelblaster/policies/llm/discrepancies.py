"""Predictions compared with results, as lines of a prompt."""

from collections.abc import Mapping, Sequence
from math import exp

from kernelblaster.policies.expert.gaps import Contrast, contrast_of
from kernelblaster.policies.llm.data import one_line
from kernelblaster.policies.llm.feedback import outcome_feedback
from kernelblaster.policies.llm.figures import change
from kernelblaster.policies.llm.prompt import NEEDED, Piece
from kernelblaster.policies.policy import Discrepancy
from kernelblaster.store.replay import Sample

MOVED = 4  # changed metrics shown per discrepancy
ALWAYS = ("issue", "occupancy", "registers")  # shown whether they changed or not
LETTERS = 240  # of what was said of a step


def listed(discrepancies: Sequence[Discrepancy], summaries: Mapping[str, str] | None = None) -> list[Piece]:
    """One piece for each discrepancy, numbered from 0, by which answers refer to them; the first three are
    never left out. `summaries` are the authors' own descriptions of candidates by `code`; with them, each
    piece also shows evidence: what was done and how the profile changed. None: no evidence."""
    return [
        Piece(_text(number, discrepancy, summaries), NEEDED if number < 3 else max(1, 60 - number))
        for number, discrepancy in enumerate(discrepancies)
    ]


def _text(number: int, discrepancy: Discrepancy, summaries: Mapping[str, str] | None) -> str:
    """The lines on one discrepancy, expected and measured gain as speedups; evidence only with
    `summaries`."""
    got = "no valid candidate" if discrepancy.measured is None else f"{exp(discrepancy.measured):.2f}x"
    failed = ", ".join(f"{count} {kind}" for kind, count in sorted(discrepancy.failures.items()))
    attempts = f"{discrepancy.count} attempt{'s' if discrepancy.count != 1 else ''}" + (
        f", of them {failed}" if failed else ""
    )
    lines = [
        f"{number}. {one_line(discrepancy.technique, 80)} in {one_line(discrepancy.state, 80)}: expected "
        f"{exp(discrepancy.expected):.2f}x, got {got}; {attempts}"
    ]
    return "\n".join([*lines, *(_evidence(discrepancy, summaries) if summaries is not None else [])])


def _evidence(discrepancy: Discrepancy, summaries: Mapping[str, str]) -> list[str]:
    """Lines on one attempt: of the valid ones that whose gain differs most from the expected, with the change
    of its profile; if none was valid, the first one with its failure."""
    valid = [s for s in discrepancy.samples if s.step.failure is None]
    if not valid:
        failed = discrepancy.samples[0]
        said = one_line(outcome_feedback(failed.child.outcome, ""), LETTERS)
        return [*_done(failed, summaries), f"   {said}"]
    sample = max(valid, key=lambda s: abs(_gain(s) - discrepancy.expected))
    return [*_done(sample, summaries), _shown(sample)]


def _done(sample: Sample, summaries: Mapping[str, str]) -> list[str]:
    """The author's description of an attempt as a line; empty if it gave none."""
    said = one_line(summaries.get(sample.step.child, ""), LETTERS)
    return [f"   done: {said}"] if said else []


def _shown(sample: Sample) -> str:
    """A line on what an attempt changed: techniques before it, the kernel's share, its own speedup, its state
    before and after, and metrics."""
    before = f"after {one_line(', '.join(sample.step.before), 120)}" if sample.step.before else "at first"
    contrast = contrast_of(sample)
    if contrast is None:
        return f"   {before}; no profile of both"
    own = "" if contrast.own_speedup is None else f", itself {contrast.own_speedup:.2f}x as fast"
    states = f"{contrast.before.state.name}, then {contrast.after.state.name}"
    return (
        f"   {before}: {one_line(sample.step.kernel, 60)}, {contrast.before.share:.0%} of the call{own}; "
        f"{states}; {', '.join(_changes(contrast)) or 'no metrics of both'}"
    )


def _changes(contrast: Contrast) -> list[str]:
    """The metrics that changed most, and those that are always shown."""
    old, new = contrast.before.state.metrics, contrast.after.state.metrics
    names = dict.fromkeys([*list(contrast.moved)[:MOVED], *ALWAYS])
    return [change(name, old[name], new[name]) for name in names if name in old and name in new]


def _gain(sample: Sample) -> float:
    """The log speedup of a valid attempt."""
    assert sample.step.log_speedup is not None
    return sample.step.log_speedup
