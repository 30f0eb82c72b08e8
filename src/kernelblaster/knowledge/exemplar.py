"""Exemplars: sources of candidates that were the best of their search, kept whole as examples for later
searches."""

from collections.abc import Sequence

from kernelblaster.records.record import Record

LONGEST = 12_000  # characters of a source; a longer one is no example
KEPT = 4  # exemplars of one state


class Exemplar(Record):
    """The best candidate of a search, kept as an example: its `source`, the `techniques` that led to it from
    the first candidate, the `family` of its kernel (None: unknown), the GPU's `architecture` (named as by
    `platform`) and the name of the `task`. `reach` is the roofline floor (the least time that the GPU's
    bandwidth and peak rates allow) divided by the candidate's time: 1 at the floor, less for a slower one.
    `summary` is its author's description of it, empty if there is none."""

    source: str
    techniques: tuple[str, ...]
    family: str | None
    architecture: str
    task: str
    reach: float
    summary: str = ""


def with_exemplar(kept: Sequence[Exemplar], new: Exemplar) -> tuple[Exemplar, ...]:
    """Returns the exemplars (example sources) of a state after `new` was added to `kept`. Only the fastest
    stays for each task and architecture, each source stays only once, and at most four stay in all (KEPT):
    those with the largest `reach`, largest first."""
    best: dict[tuple[str, str], Exemplar] = {}
    for one in (*kept, new):
        key = (one.task, one.architecture)
        if key not in best or one.reach > best[key].reach:
            best[key] = one
    sources = {one.source: one for one in sorted(best.values(), key=lambda one: one.reach)}
    ordered = sorted(sources.values(), key=lambda one: (-one.reach, one.task, one.architecture))
    return tuple(ordered[:KEPT])
