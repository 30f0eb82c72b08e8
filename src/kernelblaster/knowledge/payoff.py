"""What a technique is worth for what it makes possible: some pay only after another."""

from collections.abc import Mapping

from kernelblaster.knowledge.content import OptimizationEntry

LATER = 0.5
"""What a gain is worth that takes one more step, beside one that comes at once."""


def payoffs(
    entries: Mapping[str, OptimizationEntry],
    architecture: str | None,
    applied: tuple[str, ...],
    family: str | None = None,
) -> dict[str, float]:
    """By preparation: how much more the technique that waits for it is expected to bring after it, as a
    log speedup. Techniques that wait for nothing, or were applied already, do not count."""
    found: dict[str, float] = {}
    for entry in entries.values():
        preparation = entry.evidence.preparation
        if preparation is None or {preparation, entry.technique} & set(applied):
            continue
        after = entry.prediction(architecture, (*applied, preparation), family).gain
        without = entry.prediction(architecture, applied, family).gain
        found[preparation] = max(found.get(preparation, 0.0), LATER * (after - without))
    return found
