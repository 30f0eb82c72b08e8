"""A target: the kernel that a search has chosen to optimize next, in a given candidate."""

from dataclasses import dataclass

from kernelblaster.records.state import State


@dataclass(frozen=True)
class Target:
    """The kernel that the next step of a search will change, as it is passed to policies and the knowledge
    base. `kernel` is its name in the source, `share` its part of the call's time (0 to 1), `state` its
    performance state. `family` is the kind of its computation (like "scan"), None if unknown."""

    kernel: str
    share: float
    state: State
    family: str | None = None
