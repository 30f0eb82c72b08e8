"""Writes discrepancies (what the knowledge base expected of a technique in a performance state, against what
was measured) as lines of a prompt."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import unified_diff
from math import exp

from kernelblaster.knowledge.content import Content
from kernelblaster.knowledge.retrieval import known_state
from kernelblaster.policies.expert.gaps import Contrast, contrast_of
from kernelblaster.policies.llm.data import data, one_line
from kernelblaster.policies.llm.feedback import outcome_feedback
from kernelblaster.policies.llm.figures import change
from kernelblaster.policies.llm.prompt import NEEDED, Piece
from kernelblaster.policies.policy import Discrepancy
from kernelblaster.store.replay import Sample

MOVED = 4  # changed metrics shown per discrepancy
ALWAYS = ("issue", "occupancy", "registers")  # shown whether they changed or not
LINES = 60  # of a difference of sources
DIFFERENCE = 40  # its importance
LETTERS = 240  # of what was said of a step


@dataclass(frozen=True)
class ResultsView:
    """What `listed` needs to describe attempts in a prompt. `summaries` are the descriptions that authors
    gave of their candidates, by the candidate's code (16 hexadecimal digits). `source` returns the source of
    the candidate with a given code, or None. `now` is the knowledge base, from which the names of performance
    states are taken."""

    summaries: Mapping[str, str]
    source: Callable[[str], str | None]
    now: Content


def listed(discrepancies: Sequence[Discrepancy], view: ResultsView | None = None) -> list[Piece]:
    """Returns texts for a prompt, one for each of `discrepancies` (each a technique's expected gain against
    the measured one), numbered from 0, so that the model's answer can refer to them. The first three are
    never left out of a long prompt.

    With a `view`, each text also describes one attempt at the technique and how it changed the profile: of
    the valid attempts the one with the most unexpected gain; the first attempt if none was valid. A further
    text for each discrepancy shows how this attempt changed the source; a long prompt leaves out these
    further texts first.
    """
    pieces = []
    for number, discrepancy in enumerate(discrepancies):
        importance = NEEDED if number < 3 else max(1, 60 - number)
        pieces.append(Piece(_text(number, discrepancy, view), importance))
        if view is not None:
            pieces.append(Piece(_difference(_shown(discrepancy), view), max(1, DIFFERENCE - number)))
    return [piece for piece in pieces if piece.text]


def _text(number: int, discrepancy: Discrepancy, view: ResultsView | None) -> str:
    """The lines on one discrepancy: its `number`, expected and measured gain as speedups, the latter with its
    interval, and the number of attempts and failures; with a `view` also what one attempt did and changed."""
    got = "no valid candidate"
    if discrepancy.measured is not None and discrepancy.interval is not None:
        low, high = (exp(bound) for bound in discrepancy.interval)
        got = f"{exp(discrepancy.measured):.2f}x ({low:.2f} to {high:.2f})"
    failed = ", ".join(f"{count} {kind}" for kind, count in sorted(discrepancy.failures.items()))
    attempts = f"{discrepancy.count} attempt{'s' if discrepancy.count != 1 else ''}" + (
        f", of them {failed}" if failed else ""
    )
    lines = [
        f"{number}. {one_line(discrepancy.technique, 80)} in {one_line(discrepancy.state, 80)}: expected "
        f"{exp(discrepancy.expected):.2f}x, got {got}; {attempts}"
    ]
    return "\n".join([*lines, *(_evidence(discrepancy, view) if view is not None else [])])


def _shown(discrepancy: Discrepancy) -> Sample:
    """The attempt by which a discrepancy is illustrated: the valid one whose gain differs most from the
    expected gain; if none was valid, the first one."""
    valid = [s for s in discrepancy.samples if s.step.failure is None]
    return max(valid, key=lambda s: abs(_gain(s) - discrepancy.expected), default=discrepancy.samples[0])


def _evidence(discrepancy: Discrepancy, view: ResultsView) -> list[str]:
    """Lines on the attempt that illustrates a discrepancy: what was done (from the authors' descriptions in
    `view`), and how its profile changed or why it failed."""
    sample = _shown(discrepancy)
    if sample.step.failure is not None:
        said = one_line(outcome_feedback(sample.child.outcome, ""), LETTERS)
        return [*_done(sample, view.summaries), f"   {said}"]
    return [*_done(sample, view.summaries), _effect(sample, discrepancy.state, view.now)]


def _difference(sample: Sample, view: ResultsView) -> str:
    """The unified diff of the sources (from `view`) before and after the attempt `sample`, at most LINES
    lines of it, quoted as data; empty if a source is not known or nothing differs."""
    old, new = (view.source(code) for code in (sample.step.parent, sample.step.child))
    if old is None or new is None:
        return ""
    lines = list(unified_diff(old.splitlines(), new.splitlines(), lineterm="", n=1))[2:]
    more = [f"... {len(lines) - LINES} more lines"] if len(lines) > LINES else []
    return data(f"difference by {sample.step.technique}", "\n".join([*lines[:LINES], *more])) if lines else ""


def _done(sample: Sample, summaries: Mapping[str, str]) -> list[str]:
    """The author's description of the attempt `sample`, found in `summaries` by the code of its candidate, as
    one line in a list; an empty list if there is none."""
    said = one_line(summaries.get(sample.step.child, ""), LETTERS)
    return [f"   done: {said}"] if said else []


def _effect(sample: Sample, state: str, now: Content) -> str:
    """A line on what the attempt `sample` changed: the techniques before it, the kernel's share of the time
    and own speedup, the performance state it is in afterwards (by its name in the knowledge base `now`) if
    that is not `state`, and metrics."""
    before = f"after {one_line(', '.join(sample.step.before), 120)}" if sample.step.before else "at first"
    contrast = contrast_of(sample)
    if contrast is None:
        return f"   {before}; no profile of both"
    own = "" if contrast.own_speedup is None else f", itself {contrast.own_speedup:.2f}x as fast"
    after = known_state(now, contrast.after.state) or contrast.after.state.name
    states = "state as before" if after == state else f"state then {one_line(after, 80)}"
    return (
        f"   {before}: {one_line(sample.step.kernel, 60)}, {contrast.before.share:.0%} of the call{own}; "
        f"{states}; {', '.join(_changes(contrast)) or 'no metrics of both'}"
    )


def _changes(contrast: Contrast) -> list[str]:
    """Phrases such as `device memory 13% to 67%` on the metrics of a kernel that changed most in a step, and
    on those in ALWAYS, as far as the profiles before and after (in `contrast`) have them."""
    old, new = contrast.before.state.metrics, contrast.after.state.metrics
    names = dict.fromkeys([*list(contrast.moved)[:MOVED], *ALWAYS])
    return [change(name, old[name], new[name]) for name in names if name in old and name in new]


def _gain(sample: Sample) -> float:
    """The natural logarithm of the speedup that a valid attempt reached."""
    assert sample.step.log_speedup is not None
    return sample.step.log_speedup
