"""Tunable constants: a candidate's source declares them in comments, with the values to try. Functions here
parse these declarations and make all variants of the candidate."""

import itertools
import re

from kernelblaster.errors import KernelBlasterError
from kernelblaster.records import Candidate, Tunable

DECLARATION = re.compile(r"^\s*//\s*kernelblaster-tune:\s*(\w+)\s*=\s*([-\d,\s]+)$", re.MULTILINE)
MOST_VARIANTS = 64
MOST_SWEPT = 6  # combinations that a search tries of one candidate


def tunables(source: str) -> tuple[Tunable, ...]:
    """Returns the tunable constants that a source declares in lines like `// kernelblaster-tune: BLOCK = 128,
    256`, in order; empty if there are none."""
    declared = []
    for name, text in DECLARATION.findall(source):
        values = tuple(int(v) for v in text.replace(" ", "").split(",") if v)
        declared.append(Tunable(name=name, values=values))
    return tuple(declared)


def baked_variants(source: str, most: int) -> list[str]:
    """Returns copies of a source in which its tunable constants have other values, the source itself first:
    at most `most` texts, all different. Only the source itself if it declares no tunable constants, or if one
    of them does not have exactly one line `#define NAME value`."""
    declared = tunables(source)
    combinations = list(itertools.product(*(tunable.values for tunable in declared)))
    texts = [source]
    for values in combinations[:: max(1, len(combinations) // max(1, most))] if declared else ():
        text = source
        for tunable, value in zip(declared, values, strict=True):
            definition = re.compile(
                rf"^([ \t]*#[ \t]*define[ \t]+{tunable.name}[ \t]+)-?\d+[ \t]*$", re.MULTILINE
            )
            text, count = definition.subn(rf"\g<1>{value}", text)
            if count != 1:
                return [source]
        texts.append(text)
    return list(dict.fromkeys(texts))[:most]


def variants(candidate: Candidate) -> list[Candidate]:
    """Returns one candidate for each combination of the values of the source's tunable constants; only the
    candidate itself if it declares none. Raises KernelBlasterError for more than 64 combinations
    (MOST_VARIANTS)."""
    declared = tunables(candidate.source)
    combinations = list(itertools.product(*(t.values for t in declared)))
    if len(combinations) > MOST_VARIANTS:
        raise KernelBlasterError(
            f"{len(combinations)} combinations of tunable constants; at most {MOST_VARIANTS} are tried."
        )
    names = [t.name for t in declared]
    return [candidate.with_defines(dict(zip(names, c, strict=True))) for c in combinations]
