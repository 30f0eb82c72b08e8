"""Rewrites of plans, one file each; a new technique is one new file.

A technique's `apply(plan)` yields every plan that one application of it can give: none where its
precondition does not hold. What a kernel computes never changes, only how.
"""

import importlib
import pkgutil
from collections.abc import Callable, Iterator

from kernelblaster.policies.expert.plan import Plan

Technique = Callable[[Plan], Iterator[Plan]]


def load_techniques() -> dict[str, Technique]:
    """Every technique of this folder by its name, which is its file's name."""
    found = {}
    for module in pkgutil.iter_modules(__path__):
        found[module.name] = importlib.import_module(f"{__name__}.{module.name}").apply
    return found
