"""How much of the allowed errors the errors of an output take. Does not import PyTorch, so that what is told
of a verdict can use it."""

from kernelblaster.records.evaluation import Errors

MEASURES = ("rms", "worst", "tile", "relative", "lost")


def share_of(errors: Errors, allowed: Errors) -> float:
    """Returns how much of the bound the errors take: for each error measure the ratio of `errors` to
    `allowed` is computed, and the largest ratio is returned. Up to 1 is within bounds. Infinite if a bound is
    zero and the error is not."""
    pairs = [(getattr(errors, m), getattr(allowed, m)) for m in MEASURES]
    return max((value / limit if limit else float("inf") for value, limit in pairs if value), default=0.0)
