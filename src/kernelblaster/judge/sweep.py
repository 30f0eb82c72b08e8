"""Tunable constants of a candidate: parses their declarations and makes all variants."""

import itertools
import re

from kernelblaster.errors import KernelBlasterError
from kernelblaster.records import Candidate, Tunable

DECLARATION = re.compile(r"^\s*//\s*kernelblaster-tune:\s*(\w+)\s*=\s*([-\d,\s]+)$", re.MULTILINE)
MOST_VARIANTS = 64


def tunables(source: str) -> tuple[Tunable, ...]:
    """The tunable constants that a source declares in lines like `// kernelblaster-tune: BLOCK = 128,
    256`."""
    declared = []
    for name, text in DECLARATION.findall(source):
        values = tuple(int(v) for v in text.replace(" ", "").split(",") if v)
        declared.append(Tunable(name=name, values=values))
    return tuple(declared)


def variants(candidate: Candidate) -> list[Candidate]:
    """One candidate for each combination of the source's tunable values; only the candidate itself where none
    are declared. Raises KernelBlasterError for more than MOST_VARIANTS."""
    declared = tunables(candidate.source)
    combinations = list(itertools.product(*(t.values for t in declared)))
    if len(combinations) > MOST_VARIANTS:
        raise KernelBlasterError(
            f"{len(combinations)} combinations of tunable constants; at most {MOST_VARIANTS} are tried."
        )
    names = [t.name for t in declared]
    return [candidate.with_defines(dict(zip(names, c, strict=True))) for c in combinations]
