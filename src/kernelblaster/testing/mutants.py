"""Mutants: correct kernels with one planted mistake each, to measure what share of mistakes the judge finds.

    for mutant in mutants_of(source, extents={"x_0": 8192, "x_1": 2048}):  # the task's sizes by name
        print(mutant.kind, mutant.line, mutant.what)  # what was changed; mutant.source has the kernel

Not every mutant is wrong: a barrier may have been redundant. `mutant_truth.py` says which ones are.
"""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from kernelblaster.testing.mutations import fence, index, precision, scalar, sizes, state, tail, work
from kernelblaster.testing.mutations.tree import Code, Mutation

KINDS: dict[str, Callable[[Code], Iterator[Mutation]]] = {
    "fence": fence.edits,
    "index": index.edits,
    "tail": tail.edits,
    "precision": precision.edits,
    "scalar": scalar.edits,
    "work": work.edits,
    "state": state.edits,
    "sizes": sizes.edits,
}


@dataclass(frozen=True)
class Mutant:
    """A kernel with one planted mistake; `source` is its text. `kind` is the kind of mistake (a key of
    KINDS), `what` says in words what was changed, and `line` is where in the original, from 1. `argument`, if
    not empty, says why the mutant is wrong even if no run shows it."""

    kind: str
    what: str
    line: int
    source: str
    argument: str = ""


def mutants_of(
    source: str,
    extents: Mapping[str, int] | None = None,
    scalars: Mapping[str, float] | None = None,
) -> list[Mutant]:
    """Returns every mutant of a CUDA source, without duplicates. `extents` are the primary workload's sizes
    by name, `scalars` the task's scalar arguments by name; kinds of mistakes that need these are left out if
    they are not given."""
    code = Code(source, extents or {}, scalars or {})
    found: dict[str, Mutant] = {}
    for kind, edits in KINDS.items():
        for edit in edits(code):
            mutated = apply(source, edit)
            if mutated != source:
                found.setdefault(mutated, Mutant(kind, edit.what, code.line(edit.at), mutated, edit.argument))
    return list(found.values())


def choose(mutants: Sequence[Mutant], most: int, rng: random.Random) -> list[Mutant]:
    """Returns at most `most` of the mutants. They are drawn at random, by `rng`, from the kinds of mistakes
    in turn, so that rare kinds are represented."""
    by_kind = {kind: [m for m in mutants if m.kind == kind] for kind in KINDS}
    for group in by_kind.values():
        rng.shuffle(group)
    chosen: list[Mutant] = []
    while len(chosen) < most and any(by_kind.values()):
        for kind in rng.sample(list(KINDS), len(KINDS)):
            if by_kind[kind] and len(chosen) < most:
                chosen.append(by_kind[kind].pop())
    return chosen


def apply(source: str, edit: Mutation) -> str:
    """Makes the mistake that `edit` describes: returns the source text with the bytes in its ranges
    replaced."""
    raw = source.encode()
    for begin, end, new in sorted(edit.changes, reverse=True):
        raw = raw[:begin] + new.encode() + raw[end:]
    return raw.decode()
