"""What a strategy asks of a policy."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from kernelblaster.records import Candidate, Profile, State, Task


@dataclass(frozen=True)
class Attempt:
    """A candidate, with the form in which its policy can go on from it."""

    candidate: Candidate
    form: Any


class Policy(Protocol):
    """Who writes candidates and names their states. The same question has the same answer every time."""

    @property
    def techniques(self) -> Sequence[str]:
        """Every technique that it can apply, by name."""
        ...

    def initial(self, task: Task) -> Attempt:
        """A correct candidate to begin with."""
        ...

    def moves(self, attempt: Attempt, technique: str) -> list[Attempt]:
        """Everything that one application of a technique gives; nothing where it does not apply."""
        ...

    def state(self, profile: Profile, floor_bytes: int) -> State | None:
        """The state of the kernel that is most worth optimizing; None if nothing ran."""
        ...
