"""Speedups, shares and times as text. The text of a modelled value says that it was modelled, not
measured."""

MODELLED = " modelled"


def speedup_text(speedup: float | None, modelled: bool, digits: int = 2) -> str:
    """A speedup as text with `digits` decimals: `1.49x`, or `1.49x modelled` if it comes from a model of the
    GPU; empty for None."""
    return "" if speedup is None else f"{speedup:.{digits}f}x{kind_text(modelled)}"


def time_text(us: float | None, modelled: bool) -> str:
    """A time in microseconds as text: `12.3 us`, or `12.3 us modelled` if it comes from a model of the GPU;
    empty for None."""
    return "" if us is None else f"{us:.1f} us{kind_text(modelled)}"


def kind_text(modelled: bool) -> str:
    """What to print after a number: ` modelled` if it comes from a model of the GPU, nothing if it was
    measured."""
    return MODELLED if modelled else ""


def times(speedup: float | None) -> str:
    """A speedup as text with about three digits, such as `1.23x`; empty for None."""
    if speedup is None:
        return ""
    if speedup >= 999.5:
        return f"{speedup:.0f}x"
    return f"{speedup:.3g}x" if speedup < 0.995 or speedup >= 9.995 else f"{speedup:.2f}x"


def percent(share: float | None) -> str:
    """A share from 0 to 1 as text in whole percent, like `37%`; empty for None."""
    return "" if share is None else f"{100 * share:.0f}%"
