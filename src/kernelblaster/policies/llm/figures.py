"""Formats the metrics of a performance state, uniformly in all prompts."""

from kernelblaster.policies.expert.bottlenecks import thresholds
from kernelblaster.policies.expert.states import REGISTERS
from kernelblaster.records import State

BUSY = {
    "dram": "device memory",
    "l2": "L2",
    "l1": "L1",
    "issue": "issue slots",
    "fp32_pipe": "FP32 pipe",
    "tensor_pipe": "tensor pipe",
    "occupancy": "occupancy",
}
TROUBLE = {
    "excess_access": "sectors fetched in excess",
    "bank_conflicts": "shared-memory conflicts",
    "atomics": "atomics",
    "spills": "spills",
    "idle_lanes": "idle lanes",
    "barriers": "stalls at barriers",
    "imbalance": "idle in the last wave",
    "redundancy": "bytes beyond the floor",
}
WORDS = BUSY | TROUBLE
BOUND_BY = {"memory-bandwidth": "dram", "l2-bandwidth": "l2"}
PARTLY = 0.1  # share of the time without its bound from which that is said to bound a kernel in part only
MOST_BUSY = 4  # parts of the GPU that are listed


def figure(name: str, value: float) -> str:
    """Returns the metric `name` of a performance state with its value in words, such as `device memory 47%`
    for `dram` and 0.47. Values are fractions of 1; that of `registers` is a fraction of the most registers
    that a thread can have, and is shown as their number: `registers 28`."""
    return f"{WORDS.get(name, name)} {_number(name, value)}"


def change(name: str, old: float, new: float) -> str:
    """Returns in words the two values that a metric of a performance state had before and after a change,
    such as `device memory 13% to 67%`. `name` is the metric; its values `old` and `new` are fractions of 1,
    like the value in `figure`."""
    return f"{figure(name, old)} to {_number(name, new)}"


def reached(state: State) -> str:
    """Returns a sentence for a prompt on how busy the GPU was in a performance state: its four busiest parts
    (MOST_BUSY) and the occupancy. Empty if no part was measured. A state that is named after DRAM or the L2
    cache may have used this memory at only 60 % of its peak. So a second sentence is added if the memory, at
    its reachable peak, would need at most 90 % of the kernel's time: it says so, and that something else
    holds the kernel up for the rest."""
    uses = {name: state.metrics[name] for name in BUSY if name in state.metrics and name != "occupancy"}
    if not uses:
        return ""
    ranked = sorted(uses, key=lambda name: -uses[name])[:MOST_BUSY]
    listed = [figure(name, state.metrics[name]) for name in (*ranked, "occupancy") if name in state.metrics]
    text = f"Busy: {', '.join(listed)}."
    part = BOUND_BY.get(state.primary)
    if part not in uses:
        return text
    most: float = thresholds()["busy"]["dram_reachable"] if part == "dram" else 1.0
    rest = 1 - uses[part] / most
    if rest < PARTLY:
        return text
    name = BUSY[part][0].upper() + BUSY[part][1:]
    return (
        f"{text} {name} bounds the kernel in part only: at {most:.0%} of its peak, it would do the same "
        f"in {1 - rest:.0%} of the time. In the other {rest:.0%} something else holds it up, such as latency "
        "with too few bytes in flight, other instructions, or uneven blocks."
    )


def _number(name: str, value: float) -> str:
    """Returns the value of the metric `name` as text: for `registers` their number per thread, for all others
    a percentage. `value` is a fraction from 0 to 1."""
    return f"{value * REGISTERS:.0f}" if name == "registers" else f"{value:.0%}"
