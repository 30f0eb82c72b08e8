"""Gap analysis: tells from the profiles before and after why a technique gained more or less than expected.

Causes are tested in a fixed order, and the first that holds is named. docs/optimize.md describes all of them.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from math import exp

from kernelblaster.knowledge.content import Content
from kernelblaster.policies.expert.states import extract_states
from kernelblaster.policies.policy import Cause, Discrepancy, Gap
from kernelblaster.records import Evaluation, KernelState
from kernelblaster.records.state import HEADROOM
from kernelblaster.store.replay import Sample

MOVED = 0.1  # a metric, all between 0 and 1, that changed by less has not moved
SMALL_SHARE = 0.5  # of the call's time: no technique on such a kernel can make the call twice as fast
FASTER = 1.1  # a kernel's own speedup from which the technique did its work
PARTS = ("dram", "l2", "l1", "issue", "fp32_pipe", "tensor_pipe")
FAILURES: dict[str, Cause] = {
    "CompileFailed": "compile-error",
    "Incorrect": "wrong-result",
    "RuntimeFailed": "crashed",
    "TimedOut": "crashed",
    "Rejected": "rejected",
}
RESOURCE_ERRORS = (
    "too many resources",
    "too much shared",
    "out of resources",
    "invalid configuration",
    "registers",
)
REASONS: dict[Cause, str] = {
    "compile-error": "the code did not compile",
    "wrong-result": "the result was wrong, or less precise than allowed",
    "resources-exceeded": "a block needed more registers, threads or shared memory than there are",
    "crashed": "the candidate crashed or hung",
    "rejected": "the judge's rules forbid what it does",
    "needs-preparation": "it pays only after another technique",
    "small-share": "the kernel became faster, but is a small part of the call",
    "spills": "registers were spilled",
    "occupancy-fell": "fewer warps fit on a multiprocessor",
    "more-traffic": "more bytes were moved than before",
    "less-busy": "every part of the GPU was less busy: warps waited for longer",
    "bottleneck-stayed": "what bounds the kernel stayed as it was",
    "bottleneck-changed": "the bottleneck went, and another one took its place",
    "bottleneck-removed": "it removed the bottleneck altogether",
    "unexplained": "the profiles do not tell why",
}


@dataclass(frozen=True)
class Contrast:
    """The performance states of a kernel before and after a step (one technique applied to a candidate).
    `own_speedup` is the kernel's time before, divided by its time after; None if the kernel was merged into
    another one or a time is missing."""

    before: KernelState
    after: KernelState
    own_speedup: float | None

    @property
    def moved(self) -> dict[str, tuple[float, float]]:
        """The metrics of the kernel's performance state (each 0 to 1) that changed by at least 0.1: a mapping
        from the name to (before, after), the most changed first. Headroom, the part of the time that could be
        saved, is left out."""
        old, new = self.before.state.metrics, self.after.state.metrics
        names = [n for n in old if n in new and n != HEADROOM and abs(new[n] - old[n]) >= MOVED]
        return {n: (old[n], new[n]) for n in sorted(names, key=lambda n: -abs(new[n] - old[n]))}

    @property
    def idler(self) -> bool:
        """True if some part of the GPU (DRAM, L2, a pipe, ...) became idler and none busier: the utilization
        (0 to 1) of one part fell by at least 0.1, and that of no part rose by as much."""
        rises = {part: self.rise(part) for part in PARTS}
        return min(rises.values()) <= -MOVED and max(rises.values()) < MOVED

    def rise(self, metric: str) -> float:
        old, new = self.before.state.metrics, self.after.state.metrics
        return new[metric] - old[metric] if metric in old and metric in new else 0.0


def explain_gap(discrepancy: Discrepancy, now: Content) -> Gap:
    """Names the cause of `discrepancy` (expected against measured gain), with a sentence for people. If most
    attempts failed, the cause is the most frequent kind of failure. Otherwise one valid attempt is examined,
    the one whose gain differs most from the expected gain: the cause is found in its profiles, or in what
    `now`, the present knowledge base, says of techniques that must be applied before."""
    if sum(discrepancy.failures.values()) * 2 > discrepancy.count:
        return _failed(discrepancy)
    assert discrepancy.measured is not None
    samples = [s for s in discrepancy.samples if s.step.failure is None]
    sample = max(samples, key=lambda s: abs(_gain(s) - discrepancy.expected))
    contrast = contrast_of(sample)
    preparation = _preparation(discrepancy, now)
    if preparation is not None:
        return _gap(discrepancy, "needs-preparation", f": {preparation}", contrast)
    if contrast is None:
        return _gap(discrepancy, "unexplained", "", None)
    detail = _detail(sample.step.kernel, contrast)
    return _gap(discrepancy, _cause(discrepancy, contrast), detail, contrast)


def contrast_of(sample: Sample) -> Contrast | None:
    """Returns the performance states of one kernel before and after the step that `sample` records, from the
    two profiles. If the kernel is gone after the step, as after a fusion, the state after is that of the
    kernel that then takes most of the time. None if a profile is missing."""
    before = _find(sample.parent, sample.step.kernel, sample.floor_bytes)
    after = _find(sample.child, sample.step.kernel, sample.floor_bytes)
    if before is None or after is None:
        return None
    times = [_call_us(evaluation) for evaluation in (sample.parent, sample.child)]
    if times[0] is None or times[1] is None or sample.step.kernel not in after.kernel:
        return Contrast(before, after, None)
    own = before.share * times[0] / (after.share * times[1]) if after.share else None
    return Contrast(before, after, own)


def _cause(discrepancy: Discrepancy, contrast: Contrast) -> Cause:
    assert discrepancy.measured is not None
    before, after = contrast.before, contrast.after
    if discrepancy.measured > discrepancy.expected:
        return "bottleneck-removed" if before.state.primary != after.state.primary else "unexplained"
    found: dict[Cause, bool] = {
        "small-share": before.share <= SMALL_SHARE and (contrast.own_speedup or 0.0) >= FASTER,
        "spills": contrast.rise("spills") > 0,
        "occupancy-fell": contrast.rise("occupancy") <= -MOVED,
        "more-traffic": max(contrast.rise("redundancy"), contrast.rise("excess_access")) >= MOVED,
        "less-busy": (contrast.own_speedup or 1.0) < 1 and contrast.idler,
        "bottleneck-changed": before.state.primary != after.state.primary,
    }
    return next((cause for cause, holds in found.items() if holds), "bottleneck-stayed")


def _failed(discrepancy: Discrepancy) -> Gap:
    kind = Counter(discrepancy.failures).most_common(1)[0][0]
    said = next(_said(s.child) for s in discrepancy.samples if s.step.failure == kind)
    exceeded = any(words in said.lower() for words in RESOURCE_ERRORS)
    cause = "resources-exceeded" if exceeded else FAILURES.get(kind, "unexplained")
    return _gap(discrepancy, cause, f": {said}" if said else "", None)


def _gap(discrepancy: Discrepancy, cause: Cause, detail: str, contrast: Contrast | None) -> Gap:
    valid = discrepancy.count - sum(discrepancy.failures.values())
    if discrepancy.measured is None or discrepancy.interval is None:
        got = "no valid candidate"
    else:
        low, high = (exp(bound) for bound in discrepancy.interval)
        got = f"{exp(discrepancy.measured):.2f}x ({low:.2f} to {high:.2f})"
    sentence = (
        f"{got} instead of {exp(discrepancy.expected):.2f}x, {valid} of {discrepancy.count} valid: "
        f"{REASONS[cause]}{detail}."
    )
    return Gap(discrepancy, cause, sentence, contrast.moved if contrast else {})


def _detail(kernel: str, contrast: Contrast) -> str:
    """A parenthesis for the sentence on a gap, about `kernel`: its share of the time, its own speedup, its
    states before and after (from `contrast`), and up to three metrics that changed."""
    before, after = contrast.before, contrast.after
    own = f" and itself became {contrast.own_speedup:.2f}x as fast" if contrast.own_speedup else ""
    parts = [f"{kernel} took {before.share:.0%}{own}"]
    change = f", now {after.state.name}" if after.state.name != before.state.name else " as before"
    parts.append(f"{before.state.name}{change}")
    moved = [f"{name} {old:.2f} to {new:.2f}" for name, (old, new) in list(contrast.moved.items())[:3]]
    parts.append(", ".join(moved) if moved else "no metric moved")
    return f" ({'; '.join(parts)})"


def _preparation(discrepancy: Discrepancy, now: Content) -> str | None:
    """The technique that must be applied before that of `discrepancy` for it to pay, if the measured outcomes
    in the knowledge base `now` show one and some attempt lacked it; None otherwise."""
    entry = now.entries.get(now.resolve(discrepancy.state), {}).get(discrepancy.technique)
    preparation = entry.evidence.preparation if entry else None
    if entry is None or preparation is None:
        return None
    without, after = (side.total for side in entry.evidence.sides)
    missing = any(preparation not in sample.step.before for sample in discrepancy.samples)
    return preparation if missing and after.mean > without.mean else None


def _find(evaluation: Evaluation, kernel: str, floor_bytes: int) -> KernelState | None:
    if evaluation.profile is None:
        return None
    states = extract_states(evaluation.profile, floor_bytes)
    named = [state for state in states if kernel in state.kernel]
    return max(named or states, key=lambda state: state.share, default=None)


def _call_us(evaluation: Evaluation) -> float | None:
    return evaluation.timing.candidate_us if evaluation.timing else None


def _said(evaluation: Evaluation) -> str:
    """The first line, at most 160 characters, of the judge's message on why the evaluated candidate failed;
    empty if there is none."""
    words: Mapping[str, object] = evaluation.outcome.model_dump()
    for name in ("reason", "log", "evidence"):
        if words.get(name):
            return str(words[name]).strip().splitlines()[0][:160]
    return ""


def _gain(sample: Sample) -> float:
    assert sample.step.log_speedup is not None
    return sample.step.log_speedup
