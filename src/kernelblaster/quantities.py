"""Speedups, shares and times as text; modelled ones, which were not measured, say so."""

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


def times(speedup: float | None) -> str:
    """A speedup as text with about three digits, such as `1.23x`; empty for None."""
    if speedup is None:
        return ""
    if speedup >= 999.5:
        return f"{speedup:.0f}x"
    return f"{speedup:.3g}x" if speedup < 0.995 or speedup >= 9.995 else f"{speedup:.2f}x"


def percent(share: float | None) -> str:
    """A share (0 to 1) as whole percent; empty for None."""
    return "" if share is None else f"{100 * share:.0f}%"
