"""Payoffs: what a technique is worth because another pays only after it."""

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
    """For each preparation, LATER times the log speedup that a technique waiting for it is expected to gain
    more after it. Techniques that wait for nothing, or were applied already, are ignored."""
    best: dict[str, float] = {}
    for entry in entries.values():
        preparation = entry.evidence.preparation
        if preparation is None or {preparation, entry.technique} & set(applied):
            continue
        after = entry.prediction(architecture, (*applied, preparation), family).gain
        without = entry.prediction(architecture, applied, family).gain
        best[preparation] = max(best.get(preparation, 0.0), LATER * (after - without))
    return best
