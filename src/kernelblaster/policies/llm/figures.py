"""Formats the metrics of a performance state, uniformly in all prompts."""

from kernelblaster.policies.expert.states import REGISTERS

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


def figure(name: str, value: float) -> str:
    """Returns the metric `name` of a performance state with its value in words, such as `device memory 47%`
    for `dram` and 0.47. Values are fractions of 1; that of `registers` is a fraction of the most registers
    that a thread can have, and is shown as their number: `registers 28`."""
    return f"{WORDS.get(name, name)} {_number(name, value)}"


def change(name: str, old: float, new: float) -> str:
    """Returns the metric `name` of a performance state before and after a change in words, such as `device
    memory 13% to 67%`. `old` and `new` are fractions of 1, as the value in `figure`."""
    return f"{figure(name, old)} to {_number(name, new)}"


def _number(name: str, value: float) -> str:
    """Returns the value of the metric `name` as text: for `registers` their number per thread, for all others
    a percentage. `value` is a fraction from 0 to 1."""
    return f"{value * REGISTERS:.0f}" if name == "registers" else f"{value:.0%}"
