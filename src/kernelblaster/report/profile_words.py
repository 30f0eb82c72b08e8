"""`changes`: the differences between the profiles of two candidates, as sentences."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kernelblaster.records.kernel_name import source_name

SPACE = "\N{NO-BREAK SPACE}"
WORTH_SAYING = 0.03  # of the larger of two values
TOTALS = {
    "us": ("time in kernels", "us"),
    "read": ("bytes read from device memory", "B"),
    "written": ("bytes written to device memory", "B"),
    "instructions": ("warp instructions", ""),
    "spills": ("bytes spilled by registers", "B"),
}
SHARES = {
    "dram": ("use of device memory's bandwidth", "%"),
    "l2": ("use of the L2 cache's bandwidth", "%"),
    "l1": ("use of the L1 cache's bandwidth", "%"),
    "compute": ("use of the arithmetic units", "%"),
    "issue": ("use of the instruction slots", "%"),
    "occupancy": ("occupancy", "%"),
    "registers": ("registers a thread", ""),
}

Figures = Mapping[str, Any]


@dataclass(frozen=True)
class Changes:
    """What changed from the profile of one candidate to that of another. `rose` and `fell` have a sentence
    for each metric that became larger or smaller. `kernels` says how the launched kernels differ, empty if
    they do not. `tier` says where the metrics come from, such as the profiler or the GPU model."""

    rose: list[str]
    fell: list[str]
    kernels: str
    tier: str


def changes(before: Sequence[Figures], after: Sequence[Figures], tier: str) -> Changes | None:
    """Compares the profiles of two candidates, `before` and `after`, and returns the differences as
    sentences; None if either has no profile. Each profile has one dict for each kernel, as `kernel_figures`
    makes it. Times, bytes and instructions (TOTALS) are summed over the kernels; utilizations and registers
    (SHARES) are those of the kernel that takes longest. `tier` says where the metrics come from."""
    if not before or not after:
        return None
    sentences: dict[bool, list[str]] = {True: [], False: []}
    for key, (label, unit) in TOTALS.items():
        _compare(sentences, label, unit, _total(before, key), _total(after, key))
    one, other = _longest(before), _longest(after)
    for key, (label, unit) in SHARES.items():
        _compare(sentences, label, unit, one.get(key), other.get(key))
    return Changes(sentences[True], sentences[False], _launches(before, after, one, other), tier)


def _compare(
    sentences: dict[bool, list[str]], label: str, unit: str, was: float | None, is_: float | None
) -> None:
    """Adds a sentence on the metric called `label` to `sentences[True]` if it rose from `was` to `is_`, or to
    `sentences[False]` if it fell; `unit` follows the numbers. None if a value is None or the change is below
    WORTH_SAYING (a fraction)."""
    if was is None or is_ is None or abs(is_ - was) <= WORTH_SAYING * max(was, is_):
        return
    by = "" if unit == "%" else _by(was, is_)
    sentences[is_ > was].append(f"{label}: from {_quantity(was, unit)} to {_quantity(is_, unit)}{by}")


def _by(was: float, is_: float) -> str:
    """How much a metric changed from `was` to `is_`, as text to follow both numbers: ` (+12%)`, `, 3 times as
    much`; empty for extreme changes."""
    if not was or not is_ or is_ < 0.005 * was or is_ > 200 * was:
        return ""
    if is_ >= 2 * was:
        return f", {is_ / was:.2g} times as much"
    return f" ({is_ / was - 1:+.0%})"


def _launches(before: Sequence[Figures], after: Sequence[Figures], one: Figures, other: Figures) -> str:
    """A sentence on how the kernels of two candidates differ (number and names); `one` and `other` are those
    that take longest before and after. Empty if both have a single kernel of the same name."""
    first, last = source_name(str(one["name"])), source_name(str(other["name"]))
    longest = f"The one that takes longest is {last}"
    if len(before) == len(after) == 1:
        return "" if first == last else f"The kernel is {last}; it was {first}."
    if len(before) == len(after):
        many = f"{len(after)} kernels, as before."
    else:
        many = f"{len(after)} kernel{'s' if len(after) > 1 else ''} instead of {len(before)}."
    return f"{many} {longest}." if first == last else f"{many} {longest}; it was {first}."


def _total(kernels: Sequence[Figures], key: str) -> float | None:
    """The sum of the metric `key` over all kernels of a call; None if a kernel lacks it."""
    known = [kernel[key] for kernel in kernels if key in kernel]
    return sum(known) if len(known) == len(kernels) else None


def _longest(kernels: Sequence[Figures]) -> Figures:
    """The metrics of that kernel of a call which takes the most time."""
    return max(kernels, key=lambda kernel: kernel.get("us", 0.0))


def _quantity(value: float, unit: str) -> str:
    """A value with its unit for a sentence, shortened with k, M or G unless it is a time."""
    if unit == "%":
        return f"{value:.0f}%"
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size and unit != "us":
            return f"{value / size:.3g}{SPACE}{letter}{unit}"
    return f"{value:,.4g}{SPACE}{unit}".rstrip(SPACE)
