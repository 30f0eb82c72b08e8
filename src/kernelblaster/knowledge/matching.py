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
    """A performance state of the knowledge base, and its `distance` from another state to which it was
    compared: from 0 (equal) to below 2, as the function `distance` computes it."""

    state: State
    distance: float


def distance(one: State, other: State) -> float:
    """Returns how different two performance states are: a number from 0 (equal) to below 2. It is the mean of
    two parts, each from 0 to 1: the share of the tags that only one of the states has, and the mean
    difference of the metrics that both have. If they share no metric, it is the first part alone. If the
    primary bottlenecks differ, 1 is added, so that such states never match."""
    apart = 0.0 if one.primary == other.primary else 1.0
    parts = [_tags(one, other)]
    shared = (one.metrics.keys() & other.metrics.keys()) - {HEADROOM}
    if shared:
        parts.append(_metrics([(one.metrics[name], other.metrics[name]) for name in sorted(shared)]))
    return apart + sum(parts) / len(parts)


def nearness(distance: float) -> float:
    """Returns the weight with which a result from one state counts in predictions for another one, from the
    `distance` of the two states: 0.25 / (0.25 + distance). That is 1 at distance 0 and a half at 0.25
    (NEAR)."""
    return NEAR / (NEAR + distance)


def nearest(state: State, known: Iterable[State]) -> NearState | None:
    """Returns the state among `known` with the smallest distance from `state`, and the first of these by name
    if there are several. None if `known` is empty."""
    distances = [NearState(other, distance(state, other)) for other in known]
    return min(distances, key=lambda near: (near.distance, near.state.name), default=None)


def _tags(one: State, other: State) -> float:
    """Returns the number of tags that only one of the states has, divided by 1 plus the number of tags that
    either has. The 1 keeps a single tag from deciding."""
    mine, theirs = set(one.secondary), set(other.secondary)
    return len(mine ^ theirs) / (1 + len(mine | theirs))


def _metrics(pairs: list[tuple[float, float]]) -> float:
    """The mean difference of pairs of metric values, at least 0: absolute where both are at most 1, relative
    to the larger one otherwise."""
    return sum(abs(a - b) / max(abs(a), abs(b), 1.0) for a, b in pairs) / len(pairs)
