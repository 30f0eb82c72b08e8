"""Evidence: the results of all attempts at one technique in one performance state, as counts and sums from
which its gain is predicted."""

from functools import cached_property
from typing import NamedTuple, TypeVar

from pydantic import Field

from kernelblaster.knowledge.preparation import decisive
from kernelblaster.knowledge.tally import NonNegative, Tally, total
from kernelblaster.records.record import Record
from kernelblaster.records.step import Failed, StepResult

UNKNOWN = "unknown"
MODELLED = " (modelled)"  # what the name of an architecture ends with where times were modelled


Cells = dict[str, dict[str, Tally]]
T = TypeVar("T")


def platform(architecture: str, *, modelled: bool) -> str:
    """Returns the name under which results from GPUs of an architecture are kept: the architecture itself
    (`sm_90a`) where times were measured, and `sm_90a (modelled)` where they come from a model of the GPU."""
    return architecture + MODELLED if modelled else architecture


class Evidence(Record):
    """The results of all attempts at one technique in one performance state, as tallies (number, mean and
    variance of log speedups). `gains` has a tally for each GPU architecture and task family: gains["sm_90a
    (modelled)"]["scan"]. Modelled results are kept apart from measured ones, under another name (see
    `platform`). `after` divides the same attempts by the techniques that had been applied earlier, and by
    architecture: after["kernel_fusion"]["sm_90a"]; an attempt after several techniques counts for each of
    these. `failures` counts failed attempts by kind."""

    gains: Cells = Field(default_factory=dict)
    after: Cells = Field(default_factory=dict)
    failures: dict[str, NonNegative] = Field(default_factory=dict)

    def with_result(
        self, result: StepResult, architecture: str | None, family: str | None, before: tuple[str, ...]
    ) -> "Evidence":
        """Returns the evidence with one more attempt, which was made after the techniques `before` had been
        applied and had this `result`. An `architecture` or `family` of None is counted under "unknown"."""
        one = Tally(failed=1.0) if isinstance(result, Failed) else Tally(1.0, result.log_speedup)
        architecture = architecture or UNKNOWN
        return self.plus(
            Evidence(
                gains={architecture: {family or UNKNOWN: one}},
                after={technique: {architecture: one} for technique in before},
                failures={result.kind: 1.0} if isinstance(result, Failed) else {},
            )
        )

    def plus(self, other: "Evidence") -> "Evidence":
        """Returns the evidence from the attempts of this one and of `other` together. No attempt may be in
        both, since it would be counted twice; this is not checked."""
        failures = dict(self.failures)
        for kind, count in other.failures.items():
            failures[kind] = failures.get(kind, 0.0) + count
        return Evidence.model_construct(
            gains=_added(self.gains, other.gains),
            after=_added(self.after, other.after),
            failures=failures,
        )

    def times(self, factor: float) -> "Evidence":
        """Returns the evidence with all counts of attempts multiplied by `factor`, so that it has more or
        less influence on predictions. The mean log speedups stay the same."""
        return Evidence(
            gains=_scaled(self.gains, factor),
            after=_scaled(self.after, factor),
            failures={kind: count * factor for kind, count in self.failures.items()},
        )

    @cached_property
    def by_architecture(self) -> dict[str, Tally]:
        """A tally (number, mean and variance) of the attempts on each GPU architecture, tasks of all families
        (kinds of computation) together, by the name of the architecture. Attempts with modelled times have a
        name of their own, such as `sm_90a (modelled)`."""
        return {architecture: total(cells.values()) for architecture, cells in self.gains.items()}

    @cached_property
    def total(self) -> Tally:
        return total(self.by_architecture.values())

    @cached_property
    def measured(self) -> float:
        """The number of attempts that were timed on a GPU."""
        return self.total.attempts - self.modelled

    @cached_property
    def modelled(self) -> float:
        """The number of attempts whose times come from a model of a GPU."""
        return sum(t.attempts for name, t in self.by_architecture.items() if name.endswith(MODELLED))

    @property
    def clocks(self) -> str:
        """How many attempts were measured and how many modelled, in words: `12 measured, 40 modelled`; empty
        if there are none."""
        counts = (("measured", self.measured), ("modelled", self.modelled))
        return ", ".join(f"{count:.3g} {word}" for word, count in counts if count > 0)

    @cached_property
    def of_one_clock(self) -> "Evidence":
        """The part of this evidence whose times come from one kind of clock: the measured attempts alone or,
        if none was measured, the modelled ones. Figures over all architectures are computed from this part of
        the evidence, so that they do not mix measured and modelled times. Its `failures` are still those of
        all attempts."""
        if not (self.measured and self.modelled):
            return self
        return Evidence.model_construct(
            gains=_measured(self.gains),
            after={technique: _measured(cells) for technique, cells in self.after.items()},
            failures=self.failures,
        )

    @cached_property
    def preparation(self) -> str | None:
        """The name of the technique that changes this technique's results most if it was applied earlier: how
        much this one gains, or how often it gives a valid candidate. None if no technique changes them
        significantly."""
        return decisive({name: total(cells.values()) for name, cells in self.after.items()}, self.total)

    def of_family(self, architecture: str | None, family: str | None) -> Tally | None:
        """Returns a tally of the attempts on `architecture` at tasks of this `family` (kind of computation);
        it is empty if there were none. Returns None if predictions are to take the tasks of all families
        together: (1) `family` is None, or (2) there is a `preparation` (an earlier technique that changes the
        results). In the second case, attempts are divided by whether the preparation was applied before, and
        not by family as well."""
        if family is None or self.preparation is not None:
            return None
        return self.gains.get(architecture or "", {}).get(family, Tally())

    @cached_property
    def sides(self) -> "tuple[Side, Side]":
        """The attempts divided by the `preparation`, the earlier technique that changes results most: (the
        attempts made without it, the attempts made after it). If there is no preparation, both parts have all
        attempts."""
        if self.preparation is None:
            everything = Side(self.by_architecture, self.total, Tally())
            return everything, everything
        after = self.after[self.preparation]
        without = {name: t.minus(after.get(name, Tally())) for name, t in self.by_architecture.items()}
        one, other = total(without.values()), total(after.values())
        return Side(without, one, other), Side(after, other, one)


class Side(NamedTuple):
    """One of the two parts into which attempts are divided: made after the preparation (an earlier technique
    that changes results), or made without it. `by_architecture` and `total` are tallies of the attempts in
    this part, `across` is the tally of those in the other part. Without any preparation, `across` is
    empty."""

    by_architecture: dict[str, Tally]
    total: Tally
    across: Tally


def _measured(cells: dict[str, T]) -> dict[str, T]:
    """From a table by GPU architecture, the entries whose times were measured; those under a name like
    `sm_90a (modelled)` are left out."""
    return {name: cell for name, cell in cells.items() if not name.endswith(MODELLED)}


def _added(one: Cells, other: Cells) -> Cells:
    """Adds two tables of tallies (counts and mean log speedups). A tally is found by two keys, first `outer`
    and then `inner`; one that only one table has is copied."""
    result = dict(one)
    for outer, cells in other.items():
        mine = dict(result.get(outer, {}))
        for inner, tally in cells.items():
            mine[inner] = mine.get(inner, Tally()).plus(tally)
        result[outer] = mine
    return result


def _scaled(cells: Cells, factor: float) -> Cells:
    """A copy of a table of tallies in which all counts are multiplied by `factor`."""
    return {
        outer: {inner: tally.times(factor) for inner, tally in row.items()} for outer, row in cells.items()
    }
