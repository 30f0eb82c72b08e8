"""The kernel that a step changes."""

from dataclasses import dataclass

from kernelblaster.records.state import State


@dataclass(frozen=True)
class Target:
    """A kernel of a candidate by its name in the source, with its share of the call's time, its state, and
    its family of computation if the policy knows it."""

    kernel: str
    share: float
    state: State
    family: str | None = None
