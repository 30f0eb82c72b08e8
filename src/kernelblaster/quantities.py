"""Speedups and times as text; modelled ones, which were not measured, say so."""

MODELLED = " modelled"


def speedup_text(speedup: float | None, modelled: bool, digits: int = 2) -> str:
    """A speedup as text: `1.49x`, or `1.49x modelled` if it was not measured; empty for None."""
    return "" if speedup is None else f"{speedup:.{digits}f}x{kind_text(modelled)}"


def time_text(us: float | None, modelled: bool) -> str:
    """Microseconds as text: `12.3 us`, or `12.3 us modelled` if not measured; empty for None."""
    return "" if us is None else f"{us:.1f} us{kind_text(modelled)}"


def kind_text(modelled: bool) -> str:
    """The suffix of a number: ` modelled`, or nothing if it was measured."""
    return MODELLED if modelled else ""
