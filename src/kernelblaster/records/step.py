"""One technique applied to one candidate: what was expected, and what came of it."""

from math import exp

from kernelblaster.records.record import Record


class Step(Record):
    """`place` tells iteration, rollout, step and choice, and after a point the retry: `0/1/3/0.1`.

    `state` is that of `kernel`, which took `share` of the parent's time and is of `family`; `before` are
    the techniques that led to the parent. `predicted` is a speedup, `result` the log speedup over the
    parent or the kind of failure. `taken` says that the rollout went on from the child. `parent` and
    `child` are the `code` of candidates.
    """

    place: str
    state: str
    technique: str
    predicted: float
    result: float | str
    taken: bool
    kernel: str = ""
    share: float = 1.0
    family: str | None = None
    before: tuple[str, ...] = ()
    parent: str = ""
    child: str = ""

    @property
    def at(self) -> tuple[int, int, int]:
        """Iteration, rollout and step."""
        iteration, rollout, number = self.place.split("/")[:3]
        return int(iteration), int(rollout), int(number)

    @property
    def speedup(self) -> float | None:
        """Over the parent; None where the step failed."""
        return exp(self.result) if isinstance(self.result, float) else None
