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
    """What each technique is worth beyond its own gain, as a log speedup, because another technique gains
    more after it: half (LATER) of the log speedup that the other is expected to gain more with it than
    without it, the largest if there are several others. `entries` are the techniques of one state; those that
    no other depends on are not in the result, those already in `applied` are ignored. Predictions are for a
    GPU architecture and a family of tasks (None: any)."""
    best: dict[str, float] = {}
    for entry in entries.values():
        preparation = entry.evidence.preparation
        if preparation is None or {preparation, entry.technique} & set(applied):
            continue
        after = entry.prediction(architecture, (*applied, preparation), family).gain
        without = entry.prediction(architecture, applied, family).gain
        best[preparation] = max(best.get(preparation, 0.0), LATER * (after - without))
    return best
