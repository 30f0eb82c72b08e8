"""Distances between performance states, from their bottlenecks, tags and metrics."""

from collections.abc import Iterable
from dataclasses import dataclass

from kernelblaster.records import State
from kernelblaster.records.state import HEADROOM

MATCH = 0.5
"""Within this distance a kernel's state is taken to be the known one."""
NEAR = 0.25
"""A state at this distance counts half as much as one at distance 0."""


@dataclass(frozen=True)
class NearState:
    """A state of the knowledge base and how different it is from the state that was looked for (`distance`,
    as of the function `distance`)."""

    state: State
    distance: float


def distance(one: State, other: State) -> float:
    """How different two performance states are, from 0 (equal) to below 2. A different primary bottleneck
    adds 1, so that such states never match. Added to that is the mean of the differences of tags and of
    shared metrics (tags alone if no metric is shared)."""
    apart = 0.0 if one.primary == other.primary else 1.0
    parts = [_tags(one, other)]
    shared = (one.metrics.keys() & other.metrics.keys()) - {HEADROOM}
    if shared:
        parts.append(_metrics([(one.metrics[name], other.metrics[name]) for name in sorted(shared)]))
    return apart + sum(parts) / len(parts)


def nearness(distance: float) -> float:
    """The weight (0 to 1) with which a result from another state counts in this one, by the distance of the
    two states: 1 at distance 0, a half at 0.25 (NEAR), towards 0 beyond."""
    return NEAR / (NEAR + distance)


def nearest(state: State, known: Iterable[State]) -> NearState | None:
    """The state among `known` with the smallest distance from `state`; of several, the first by name. None if
    `known` is empty."""
    distances = [NearState(other, distance(state, other)) for other in known]
    return min(distances, key=lambda near: (near.distance, near.state.name), default=None)


def _tags(one: State, other: State) -> float:
    """The share of tags that only one state has, with 1 added to the denominator so that a single tag does
    not decide."""
    mine, theirs = set(one.secondary), set(other.secondary)
    return len(mine ^ theirs) / (1 + len(mine | theirs))


def _metrics(pairs: list[tuple[float, float]]) -> float:
    """The mean difference of pairs of metric values, at least 0: absolute where both are at most 1, relative
    to the larger one otherwise."""
    return sum(abs(a - b) / max(abs(a), abs(b), 1.0) for a, b in pairs) / len(pairs)
