"""Speedups and times as text; modelled ones, which were not measured, say so."""

MODELLED = " modelled"


def speedup_text(speedup: float | None, modelled: bool, digits: int = 2) -> str:
    """`1.49x`, or `1.49x modelled`; empty where there is none."""
    return "" if speedup is None else f"{speedup:.{digits}f}x{kind_text(modelled)}"


def time_text(us: float | None, modelled: bool) -> str:
    """`12.3 us`, or `12.3 us modelled`; empty where there is none."""
    return "" if us is None else f"{us:.1f} us{kind_text(modelled)}"


def kind_text(modelled: bool) -> str:
    """What follows a number: ` modelled`, or nothing if it was measured."""
    return MODELLED if modelled else ""
