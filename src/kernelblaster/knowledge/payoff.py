"""Payoffs: what applying a technique is worth beyond its own gain, because another technique gains more after
it."""

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
    """Returns what techniques are worth beyond their own gain because another technique gains more after
    them, as natural logarithms of speedups, by technique. The value is half (LATER) of how much more the
    other technique is expected to gain after this one than without it; if several others gain more, the
    largest such value. `entries` are the techniques of one state. The result has only techniques on which
    another one depends, and none that are in `applied`. Predictions are for a GPU `architecture` and a
    `family` of tasks (None: any)."""
    best: dict[str, float] = {}
    for entry in entries.values():
        preparation = entry.evidence.preparation
        if preparation is None or {preparation, entry.technique} & set(applied):
            continue
        after = entry.prediction(architecture, (*applied, preparation), family).gain
        without = entry.prediction(architecture, applied, family).gain
        best[preparation] = max(best.get(preparation, 0.0), LATER * (after - without))
    return best
