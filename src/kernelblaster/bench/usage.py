"""`usage_of` counts, over recorded searches, how often techniques were applied and paid, which performance
states were visited, and which technique pays after which. Reports of benches show it."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from kernelblaster.records import Failed, Step, StepResult
from kernelblaster.records.outcome import TEACHES_NOTHING

PAID = 0.01  # log speedup: less is within the judge's resolution
START = "(start)"  # stands for what is applied before the first technique


@dataclass
class Uses:
    """Counts of attempts, for example at one technique. `paid` is how many gained more than 1 % (a log
    speedup above PAID), `idle` how many were correct without such a gain. `failures` counts all others by the
    kind of failure. `speedups` are those of the correct attempts."""

    paid: int = 0
    idle: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    speedups: list[float] = field(default_factory=list)

    def add(self, result: StepResult) -> None:
        """Counts one more attempt by its `result`: failed, paid (a log speedup above 0.01, PAID), or correct
        without such a gain."""
        if isinstance(result, Failed):
            self.failures[result.kind] += 1
            return
        self.speedups.append(result.speedup)
        if result.log_speedup > PAID:
            self.paid += 1
        else:
            self.idle += 1

    @property
    def failed(self) -> int:
        return self.failures.total()

    @property
    def attempts(self) -> int:
        return self.paid + self.idle + self.failed

    @property
    def median_speedup(self) -> float | None:
        """The median speedup of the attempts that gave a correct candidate; None if none did."""
        return median(self.speedups) if self.speedups else None

    def as_dict(self) -> dict[str, Any]:
        return {
            "attempts": self.attempts,
            "paid": self.paid,
            "idle": self.idle,
            "failed": self.failed,
            "failures": dict(self.failures),
            "median_speedup": self.median_speedup,
        }


@dataclass(frozen=True)
class Transition:
    """What came of applying `technique` directly after the technique `before`; `before` is START if
    `technique` was the first one of its path. `attempts` is how often that was tried. `paid` is the fraction
    of the attempts (0 to 1) that gained more than 1 %. `median_speedup` is over the attempts that gave a
    correct candidate. `median_anywhere` is the same over all uses of `technique`, whatever came before. A
    median is None if no candidate was correct."""

    before: str
    technique: str
    attempts: int
    paid: float
    median_speedup: float | None
    median_anywhere: float | None


@dataclass(frozen=True)
class TechniqueUsage:
    """What searches tried. Attempts are counted by technique (`techniques`), by performance state (`states`;
    what bounds a kernel, like "memory-bandwidth") and by (state, technique) (`pairs`). `visited` has for each
    task the states that its candidates were in, in the order in which they first occurred. `transitions` has
    an entry for each technique that was applied directly after another one, which says how often that paid.
    """

    techniques: dict[str, Uses]
    states: dict[str, Uses]
    pairs: dict[tuple[str, str], Uses]
    visited: dict[str, list[str]]
    transitions: list[Transition]

    @property
    def states_a_task(self) -> float | None:
        """The mean number of distinct performance states that a task's candidates were in; None without
        tasks."""
        counts = [len(states) for states in self.visited.values()]
        return sum(counts) / len(counts) if counts else None

    def as_dict(self) -> dict[str, Any]:
        """These statistics as JSON data for reports, under the names of the attributes. Techniques and
        performance states are sorted by how often they were tried."""
        return {
            "techniques": [{"name": name} | uses.as_dict() for name, uses in _most_used(self.techniques)],
            "states": [{"name": name} | uses.as_dict() for name, uses in _most_used(self.states)],
            "pairs": [
                {"state": key[0], "technique": key[1]} | uses.as_dict()
                for key, uses in _most_used(self.pairs)
            ],
            "states_a_task": self.states_a_task,
            "visited": self.visited,
            "transitions": [vars(transition) for transition in self.transitions],
        }


def usage_of(steps: Mapping[str, Iterable[Step]]) -> TechniqueUsage:
    """Statistics from the steps that were tried; `steps` has them by task. A step whose failure says nothing
    of its technique (the device could not judge it) is ignored. If several rollouts (walks of one search)
    applied the same technique between the same two candidates, it counts once."""
    techniques: defaultdict[str, Uses] = defaultdict(Uses)
    states: defaultdict[str, Uses] = defaultdict(Uses)
    pairs: defaultdict[tuple[str, str], Uses] = defaultdict(Uses)
    followed: defaultdict[tuple[str, str], Uses] = defaultdict(Uses)
    visited: dict[str, list[str]] = {}
    for task, its_steps in steps.items():
        seen: set[tuple[str, str, str]] = set()
        states_here = visited.setdefault(task, [])
        for step in its_steps:
            key = (step.parent, step.child, step.technique)
            if step.failure in TEACHES_NOTHING or key in seen:
                continue
            seen.add(key)
            if step.state not in states_here:
                states_here.append(step.state)
            previous = step.before[-1] if step.before else START
            for uses in (
                techniques[step.technique],
                states[step.state],
                pairs[step.state, step.technique],
                followed[previous, step.technique],
            ):
                uses.add(step.result)
    return TechniqueUsage(
        dict(techniques), dict(states), dict(pairs), visited, _transitions(followed, dict(techniques))
    )


def discovery_of(steps: Iterable[Step]) -> list[tuple[int, int]]:
    """Returns how quickly a search discovers what pays. The list has a pair for each step: (the number of
    steps so far, the number of different pairs of performance state and technique that had gained more than 1
    % by then)."""
    paid: set[tuple[str, str]] = set()
    counts = []
    for number, step in enumerate(steps, 1):
        if step.log_speedup is not None and step.log_speedup > PAID:
            paid.add((step.state, step.technique))
        counts.append((number, len(paid)))
    return counts


def _transitions(
    followed: Mapping[tuple[str, str], Uses], techniques: Mapping[str, Uses]
) -> list[Transition]:
    """The pairs of techniques of which one was applied directly after the other, those with the largest
    median speedup first; last come pairs without a correct candidate. `followed` has the attempts by
    (technique before, technique), `techniques` those of each technique anywhere."""
    transitions = [
        Transition(
            before=before,
            technique=technique,
            attempts=uses.attempts,
            paid=uses.paid / uses.attempts,
            median_speedup=uses.median_speedup,
            median_anywhere=techniques[technique].median_speedup,
        )
        for (before, technique), uses in followed.items()
    ]
    return sorted(transitions, key=lambda t: (-(t.median_speedup or 0.0), -t.attempts, t.before, t.technique))


def _most_used(uses: Mapping[Any, Uses]) -> Sequence[tuple[Any, Uses]]:
    return sorted(uses.items(), key=lambda item: (-item[1].attempts, item[0]))
