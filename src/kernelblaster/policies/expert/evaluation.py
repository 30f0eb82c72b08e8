"""Policy evaluation: compares the gain that the knowledge base expected of a technique in a performance state
with the gain that was measured. Gains are natural logarithms of speedups."""

from collections import Counter
from collections.abc import Sequence
from math import log, sqrt
from statistics import fmean

from kernelblaster.knowledge.content import Content
from kernelblaster.knowledge.preparation import NOISE, NOISE_WEIGHT
from kernelblaster.policies.policy import Discrepancy
from kernelblaster.records import Step
from kernelblaster.records.outcome import TEACHES_NOTHING
from kernelblaster.records.recipe import is_recipe
from kernelblaster.store.replay import Sample


def evaluate_policy(
    fresh: Sequence[Sample], earlier: Sequence[Sample], theta: Content, architecture: str
) -> list[Discrepancy]:
    """Compares the gain that the knowledge base expected with the measured gain. Returns one Discrepancy
    (expected gain, measured gain, failures) for each pair of performance state and technique that the `fresh`
    samples (the steps of this iteration) tried. `earlier` samples of the same pairs count like fresh ones. A
    step that occurs several times (same parent, same child) counts once; steps whose failure is the device's
    (Unsupported, Abandoned) do not count. `theta` is the knowledge base that the iteration used,
    `architecture` that of the GPU, such as "sm_90a"."""
    tried = {_key(sample.step) for sample in fresh}
    groups: dict[tuple[str, str], dict[tuple[str, str], Sample]] = {}
    for sample in (*earlier, *fresh):
        if _key(sample.step) in tried and sample.step.failure not in TEACHES_NOTHING:
            walked = (sample.step.parent, sample.step.child)
            groups.setdefault(_key(sample.step), {})[walked] = sample
    return [_discrepancy(list(found.values()), theta, architecture) for found in groups.values()]


def _discrepancy(samples: list[Sample], theta: Content, architecture: str) -> Discrepancy:
    steps = [sample.step for sample in samples]
    gains = [step.log_speedup for step in steps if step.log_speedup is not None]
    return Discrepancy(
        state=steps[0].state,
        technique=steps[0].technique,
        expected=fmean(_expected(step, theta, architecture) for step in steps),
        measured=fmean(gains) if gains else None,
        interval=_interval(gains) if gains else None,
        failures=Counter(step.failure for step in steps if step.failure is not None),
        samples=tuple(samples),
    )


def _expected(step: Step, theta: Content, architecture: str) -> float:
    """Natural logarithm of the speedup that the knowledge base `theta` expects on the GPU `architecture`
    (`sm_90a`) of the step's technique, after the same earlier techniques. The step's own prediction is used
    instead for a recipe (several techniques in one step), and for a technique without attempts in that
    state."""
    if is_recipe(step.technique):
        return log(step.predicted)
    known = theta.states.get(step.state) and theta.entries.get(theta.resolve(step.state), {})
    entry = known.get(step.technique) if known else None
    if entry is None or entry.evidence.total.attempts < 1:
        return log(step.predicted)
    return entry.prediction(architecture, step.before, step.family).mean


def _interval(gains: Sequence[float]) -> tuple[float, float]:
    """Confidence interval of the mean of `gains` (natural logarithms of speedups), two standard errors to
    each side. The usual noise of a measurement counts as NOISE_WEIGHT further observations in the variance,
    so that few samples do not look certain."""
    mean = fmean(gains)
    squares = NOISE_WEIGHT * NOISE * NOISE + sum((g - mean) ** 2 for g in gains)
    error = sqrt(squares / (NOISE_WEIGHT + len(gains)) / len(gains))
    return mean - 2 * error, mean + 2 * error


def _key(step: Step) -> tuple[str, str]:
    return step.state, step.technique
