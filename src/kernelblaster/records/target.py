"""A target: the kernel of a candidate that a step of a search changes."""

from dataclasses import dataclass

from kernelblaster.records.state import State


@dataclass(frozen=True)
class Target:
    """The kernel that a step will change. `kernel` is its name in the source, `share` its part of the call's
    time (0 to 1), `state` its performance state. `family` is the kind of its computation (like "scan"), None
    if unknown."""

    kernel: str
    share: float
    state: State
    family: str | None = None
