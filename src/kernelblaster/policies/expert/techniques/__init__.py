"""Rewrites of plans, one file each; a new technique is one new file.

A technique's `apply(plan)` yields every plan that one application of it can give: none where its
precondition does not hold. What a kernel computes never changes, only how. One that needs a certain
architecture names it as ARCHITECTURE, and one whose instructions the PTX machine does not have says
GPU_ONLY.
"""

import importlib
import pkgutil
from collections.abc import Callable, Iterator

from kernelblaster.policies.expert.plan import Plan

Technique = Callable[[Plan], Iterator[Plan]]


def load_techniques(architecture: str | None = None, emulated: bool = False) -> dict[str, Technique]:
    """Every technique of this folder by its name, which is its file's name; with an architecture, those
    that it, or the PTX machine in its place, has the instructions for."""
    found = {}
    for place in pkgutil.iter_modules(__path__):
        module = importlib.import_module(f"{__name__}.{place.name}")
        fits = architecture is None or getattr(module, "ARCHITECTURE", architecture) == architecture
        if fits and not (emulated and getattr(module, "GPU_ONLY", False)):
            found[place.name] = module.apply
    return found
