"""Tells how well the emulator's timing model ranked candidates that a GPU then measured."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

from kernelblaster.records import Evaluation
from kernelblaster.store.run import Run

APART = 1.01  # ratio of measured times from which two candidates count as different


@dataclass(frozen=True)
class Ranking:
    """How well a timing model ranked candidates. `pairs` is the number of pairs of candidates that were both
    modelled and measured; in `right` of them, the model had predicted which one is faster."""

    right: int = 0
    pairs: int = 0

    def __str__(self) -> str:
        """How well the model ranked, as a part of a sentence; empty if there are no pairs of candidates."""
        if not self.pairs:
            return ""
        return f"the model ranked {self.right / self.pairs:.0%} of {self.pairs} pairs of candidates right"


def ranking_of(modelled_us: Mapping[str, float | None], measured_us: Mapping[str, float]) -> Ranking:
    """Returns in how many pairs of candidates the modelled times are in the same order as the measured ones,
    and how many pairs there are. Both arguments map a candidate's code to its time in us, None if it has
    none. Only candidates with both times count, and only pairs whose measured times differ by at least 1 %
    (APART)."""
    known = [(us, measured_us[code]) for code, us in modelled_us.items() if us and code in measured_us]
    pairs = [(a, b) for a, b in combinations(known, 2) if not 1 / APART < a[1] / b[1] < APART]
    right = sum((a[0] < b[0]) == (a[1] < b[1]) for a, b in pairs)
    return Ranking(right, len(pairs))


def ranking_in(run: Run) -> Ranking:
    """Returns how well the emulator's timing model ranked those candidates of a run that it gave a time and
    that a GPU measured later: the number of pairs of such candidates, and in how many pairs the model had
    predicted which one is faster. Pairs whose measured times differ by less than 1 % do not count. Both
    numbers are 0 if there are no pairs."""
    modelled = {event.key: event.data["us"] for event in run.events if event.kind == "estimate"}
    measured = {}
    for event in run.events:
        if event.kind == "evaluation" and event.key in modelled:
            timing = Evaluation.model_validate(event.data["evaluation"]).timing
            if timing is not None and not timing.modelled:
                measured[event.key] = timing.candidate_us
    return ranking_of(modelled, measured)
