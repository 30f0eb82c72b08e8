"""Exemplars: whole sources of candidates that were the best of their search, kept as examples for later
searches."""

from collections.abc import Sequence

from kernelblaster.records.record import Record

LONGEST = 12_000  # characters of a source; a longer one is no example
KEPT = 4  # exemplars of one state


class Exemplar(Record):
    """The best candidate of a search: its `source`, the `techniques` that led to it from the first candidate,
    the `family` of its kernel (None: unknown), and its `reach`: the roofline floor (the least time that the
    GPU's bandwidth and peak rates allow) divided by its time, 1 at the floor. `architecture` is as in
    `Evidence`, `task` names what it computes; `summary` is its author's, may be empty."""

    source: str
    techniques: tuple[str, ...]
    family: str | None
    architecture: str
    task: str
    reach: float
    summary: str = ""


def with_exemplar(kept: Sequence[Exemplar], new: Exemplar) -> tuple[Exemplar, ...]:
    """The exemplars of a state (example sources) with a new one added. Kept are only the fastest for each
    task and architecture, each source once, and at most four in all (KEPT), those that reach the largest
    fraction of the roofline floor's speed; best first."""
    best: dict[tuple[str, str], Exemplar] = {}
    for one in (*kept, new):
        key = (one.task, one.architecture)
        if key not in best or one.reach > best[key].reach:
            best[key] = one
    sources = {one.source: one for one in sorted(best.values(), key=lambda one: one.reach)}
    ordered = sorted(sources.values(), key=lambda one: (-one.reach, one.task, one.architecture))
    return tuple(ordered[:KEPT])
