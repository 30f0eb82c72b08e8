"""Payoffs: a technique's payoff is what applying it is worth beyond its own gain, because another technique
gains more after it."""

from collections.abc import Mapping

from kernelblaster.knowledge.content import OptimizationEntry

LATER = 0.5
"""Discount of a gain that needs one more step."""


def payoffs(
    entries: Mapping[str, OptimizationEntry],
    architecture: str | None,
    applied: tuple[str, ...],
    family: str | None = None,
) -> dict[str, float]:
    """Returns, by the name of a technique, what the technique is worth beyond its own gain, because another
    technique gains more after it. Values are natural logarithms of speedups, at least 0. Take for A that B is
    expected to gain 0.5 after A and 0.1 without A: A is worth half (LATER) of the difference, 0.2. If several
    techniques depend on A, the largest such value counts. `entries` are the techniques of one performance
    state. The result leaves out techniques on which no other depends, and those in `applied`. Predictions are
    for a GPU `architecture` and a `family` of tasks (None: any)."""
    best: dict[str, float] = {}
    for entry in entries.values():
        preparation = entry.evidence.preparation
        if preparation is None or {preparation, entry.technique} & set(applied):
            continue
        after = entry.prediction(architecture, (*applied, preparation), family).gain
        without = entry.prediction(architecture, applied, family).gain
        best[preparation] = max(best.get(preparation, 0.0), LATER * (after - without))
    return best
