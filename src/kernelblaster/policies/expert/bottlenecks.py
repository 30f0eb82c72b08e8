"""Names what bounds a kernel (its bottleneck) and what else is characteristic of it, by a decision procedure
on signals from its profile. docs/states.md describes the procedure; its thresholds, with reasons, are in
state_thresholds.toml."""

import tomllib
from collections.abc import Iterator
from functools import cache
from math import ceil
from pathlib import Path
from typing import Any

from kernelblaster.devices.occupancy import WARP
from kernelblaster.policies.expert.signals import Signals
from kernelblaster.records.state import Bottleneck

LAUNCH_US = 2.2  # time of a launch that does nothing
MOST_HEADROOM = 0.99  # no kernel can be saved altogether
MATH: dict[str, Bottleneck] = {"tensor": "tensor-pipe", "fma": "fp32-pipe"}
PIPE_WORDS = {
    "alu": "integer-pipe",
    "multiply": "integer-pipe",
    "special": "special-pipe",
    "convert": "special-pipe",
    "fp64": "fp64-pipe",
    "half": "half-pipe",
    "shuffle": "shuffle-pipe",
}
MEMORY = ("dram", "l2", "l1")
# Secondary words that a bottleneck implies, and that are therefore left out beside it.
IMPLIED: dict[str, set[str]] = {
    "redundant-work": {"memory-bandwidth"},
    "atomics": {"l2-bandwidth"},
    "bank-conflicts": {"load-store-pipe"},
    "register-pressure": {"memory-bandwidth", "redundant-work", "register-limited"},
}


@cache
def thresholds() -> dict[str, Any]:
    return tomllib.loads((Path(__file__).parent / "state_thresholds.toml").read_text())


def leader(s: Signals) -> tuple[str, float]:
    """Returns (the busiest unit of the GPU, its utilization from 0 to 1) while a kernel ran, according to
    `s`, what its profile tells. Units are "dram", "l2", "l1", "issue" (the issue slots) and the arithmetic
    pipes by name. DRAM counts as the busiest as soon as its utilization is at least 0.9 times the highest one
    (the threshold `tie`). Raises ValueError if no utilization is known."""
    parts = {"dram": s.dram, "l2": s.l2, "l1": s.l1, "issue": s.issue, **s.pipes}
    uses = {name: use for name, use in parts.items() if use is not None}
    name = max(uses, key=lambda part: uses[part])
    if s.dram is not None and s.dram >= thresholds()["busy"]["tie"] * uses[name]:
        name = "dram"
    return name, uses[name]


def primary_of(s: Signals) -> Bottleneck:
    """Returns the name of the bottleneck of a kernel, such as "memory-bandwidth", by its signals `s` (what
    its profile tells). The following are tested in this order, and the first that applies is named: the
    kernel is so short that its launch dominates; a part of the GPU is busy with avoidable work; a part is at
    its limit; warps wait at barriers; blocks take unequal times; registers limit how many warps are resident.
    If none applies, it is "latency"."""
    t = thresholds()["primary"]
    if s.duration_us is not None and s.duration_us <= t["launch_us"]:
        return "launch-overhead"
    if not s.measured:
        return _primary_unmeasured(s)
    name, use = leader(s)
    bound = use >= thresholds()["busy"]["bound"]
    wasted = _waste(s, name, bound)
    if wasted is not None:
        return wasted
    return _bound(s, name) if bound else _idle(s)


def _waste(s: Signals, name: str, bound: bool) -> Bottleneck | None:
    """The bottleneck of the kernel with the signals `s` if its busiest part of the GPU, `name`, is busy with
    avoidable work (spills, atomics, uncoalesced access, bank conflicts, divergence, redundant traffic); None
    otherwise. `bound`: that part is near its limit."""
    t = thresholds()["primary"]
    memory = name in MEMORY
    if _spilled(s, t) and (memory or not bound):
        return "register-pressure"
    if name == "l2" and bound and _at_least(s.atomics, t["atomics"]):
        return "atomics"
    redundant = _at_least(s.moved_over_floor, t["moved_over_floor"])
    streaming = name == "dram" and bound  # then the caches caught what was not coalesced
    if memory and _at_least(s.access_excess, t["access_excess"]) and (redundant or not streaming):
        return "uncoalesced-access"
    if name == "l1" and _at_least(s.bank_conflicts, t["bank_conflicts"]):
        return "bank-conflicts"
    if not memory and _divergent(s, t["active_lanes"]):
        return "divergence"
    return "redundant-work" if streaming and redundant else None


def _bound(s: Signals, name: str) -> Bottleneck:
    """The bottleneck of a kernel whose busiest part of the GPU, called `name`, is at its limit without
    avoidable work. `s` are the signals (numbers read from the kernel's profile)."""
    if name == "dram":
        return "memory-bandwidth"
    if name == "l2":
        return "l2-bandwidth"
    if name in MATH:
        return MATH[name]
    for pipe, word in MATH.items():
        if (
            s.issue
            and s.pipes.get(pipe, 0.0) >= thresholds()["busy"]["math_share"] * s.issue
            and name != "l1"
        ):
            return word
    return "instruction-issue"


def _idle(s: Signals) -> Bottleneck:
    """The bottleneck of the kernel with the signals `s` if no part of the GPU is busy, so that the kernel
    waits: for barriers, for the longest of uneven blocks, because registers limit occupancy, or else plain
    latency."""
    t = thresholds()["primary"]
    if _at_least(s.barrier_share, t["barrier_share"]):
        return "barriers"
    if _below(s.balance, t["balance"]):
        return "tail-effect"
    if s.register_limited and _below(s.occupancy, t["occupancy"]):
        return "register-pressure"
    return "latency"


def _primary_unmeasured(s: Signals) -> Bottleneck:
    """The bottleneck of a kernel of which utilizations were not measured and `s` has only its duration,
    resources or counters: what these prove, or `latency` when they prove nothing; `secondary_of` then adds
    the word `unmeasured`."""
    alone, t = thresholds()["alone"], thresholds()["primary"]
    if s.copy or _at_least(s.floor_rate, thresholds()["busy"]["bound"]):
        return "memory-bandwidth"
    if _spilled(s, t):
        return "register-pressure"
    if _at_least(s.access_excess, alone["access_excess"]):
        return "uncoalesced-access"
    if _at_least(s.bank_conflicts, alone["bank_conflicts"]):
        return "bank-conflicts"
    if _divergent(s, alone["active_lanes"]):
        return "divergence"
    return "tail-effect" if _below(s.balance, alone["balance"]) else "latency"


def secondary_of(s: Signals, primary: Bottleneck) -> tuple[str, ...]:
    """Returns further words that describe the kernel with the signals `s` (what its profile tells), such as
    "low-occupancy", sorted. Words that its bottleneck `primary` implies are left out. If more than three
    words apply, three are returned: those that come first in a fixed order, the most telling first (spills,
    uncoalesced access, ...). For the bottleneck "launch-overhead" no word is returned; for a fill or copy by
    the driver, the only word is "copy"."""
    if primary == "launch-overhead":
        return ()
    if s.copy:
        return ("copy",)
    said = {primary} | IMPLIED.get(primary, set())
    words = list(dict.fromkeys(word for word in _words(s, primary) if word not in said))
    return tuple(sorted(words[: thresholds()["secondary"]["most"]]))


def _words(s: Signals, primary: Bottleneck) -> Iterator[str]:
    """Yields words beside its bottleneck `primary` that describe the kernel with the signals `s`, the most
    telling first; they may include `primary` itself."""
    t = thresholds()["secondary"]
    if not s.measured:
        yield "unmeasured"
    if _spilled(s, t):
        yield "spills"
    if _at_least(s.access_excess, t["access_excess"]):
        yield "uncoalesced-access"
    if _at_least(s.bank_conflicts, t["bank_conflicts"]) and _at_least(s.l1, t["bank_conflicts_l1"]):
        yield "bank-conflicts"
    if _at_least(s.atomics, t["atomics"]) and _at_least(s.l2, thresholds()["busy"]["bound"]):
        yield "atomics"
    if _divergent(s, t["active_lanes"]):
        yield "divergence"
    if _at_least(s.barrier_share, t["barrier_share"]):
        yield "barriers"
    if _at_least(s.moved_over_floor, t["moved_over_floor"]):
        yield "redundant-work"
    yield from _shape_words(s, primary)
    yield from _busy_words(s)


def _shape_words(s: Signals, primary: Bottleneck) -> Iterator[str]:
    """Yields words that follow from the launch's shape and resources in the signals `s`: tail effect, low
    occupancy and what limits it and, only if the bottleneck `primary` is latency, small blocks."""
    t = thresholds()["secondary"]
    uneven = _below(s.balance, t["balance"]) and not _at_least(s.dram, thresholds()["busy"]["bound"])
    if uneven:
        yield "tail-effect"
    if _below(s.occupancy, t["occupancy"]) and not uneven:
        yield "low-occupancy"
        if s.register_limited:
            yield "register-limited"
        elif s.shared_limited:
            yield "shared-memory-limited"
    small = 0 < s.threads <= t["small_block"] and _below(s.occupancy, t["small_block_occupancy"])
    if primary == "latency" and s.measured and small:
        yield "small-blocks"


def _busy_words(s: Signals) -> Iterator[str]:
    """Yields words for memory levels and pipes that are near their limit in the signals `s`, including the
    busiest one, whose pipe may have no bottleneck of its own."""
    bound = thresholds()["busy"]["bound"]
    for word, use in (("memory-bandwidth", s.dram), ("l2-bandwidth", s.l2), ("load-store-pipe", s.l1)):
        if _at_least(use, bound):
            yield word
    for pipe in sorted(s.pipes, key=lambda name: -s.pipes[name]):
        if s.pipes[pipe] >= bound and pipe in PIPE_WORDS:
            yield PIPE_WORDS[pipe]


def headroom_of(s: Signals, primary: Bottleneck, launches: int) -> float | None:
    """Returns the fraction of the kernel's time (0 to 0.99) that could be saved, according to the signals `s`
    (what its profile tells). What cannot be saved is the longest of three times: (1) moving the bytes that
    the task needs at the DRAM rate that can be reached; (2) the arithmetic of active lanes; (3) one launch.
    If the bottleneck `primary` is "launch-overhead" and the call has several `launches`, nearly all can be
    saved, because this kernel could be merged into another one. Returns None if the profile tells too little:
    neither utilizations nor `floor_rate`, the share of the peak DRAM rate that the least memory traffic alone
    would use."""
    if primary == "launch-overhead":
        assert s.duration_us is not None
        return MOST_HEADROOM if launches > 1 else max(0.0, 1 - LAUNCH_US / max(s.duration_us, LAUNCH_US))
    reachable: float = thresholds()["busy"]["dram_reachable"]
    if not s.measured:
        return None if s.floor_rate is None else max(0.0, 1 - s.floor_rate / reachable)
    math = max((s.pipes.get(pipe, 0.0) for pipe in ("fma", "tensor", "half", "fp64")), default=0.0)
    bytes_ = (s.dram or 0.0) / reachable / max(1.0, s.moved_over_floor or 1.0)
    required = max(bytes_, math * (1.0 if s.active_lanes is None else s.active_lanes))
    required = max(required, LAUNCH_US / s.duration_us if s.duration_us else 0.0)
    return min(MOST_HEADROOM, max(0.0, 1 - required))


def _spilled(s: Signals, t: dict[str, Any]) -> bool:
    return _at_least(s.local_share, t["local_share"]) or _at_least(s.spill_bytes, t["spill_bytes"])


def _divergent(s: Signals, lanes: float) -> bool:
    """Whether by the signals `s` branches leave less than the fraction `lanes` of a warp's lanes active.
    Where branches were not counted, lanes without a thread (the last warp of a block that is no multiple of
    32) are not blamed."""
    if not _below(s.active_lanes, lanes):
        return False
    if s.branch_efficiency is not None:
        whole: float = thresholds()["secondary"]["branch_efficiency"]
        return s.branch_efficiency < whole
    assert s.active_lanes is not None
    filled = s.threads / (ceil(s.threads / WARP) * WARP) if s.threads else 1.0
    return s.active_lanes < lanes * filled


def _at_least(value: float | None, least: float) -> bool:
    return value is not None and value >= least


def _below(value: float | None, limit: float) -> bool:
    return value is not None and value < limit
