"""A kernel that a step is about."""

from dataclasses import dataclass

from kernelblaster.records.state import State


@dataclass(frozen=True)
class Target:
    """A kernel of a candidate, as its source names it: its share of the call's time, its state, and
    what kind of computation it is, where the policy knows."""

    kernel: str
    share: float
    state: State
    family: str | None = None
