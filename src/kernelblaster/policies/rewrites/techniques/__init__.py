"""Rewrites of a source's text, one file each; a new technique is one new file, named as the knowledge base
names it.

A technique's `apply(source, kernel)` yields every source that one application of it to a kernel can give:
none where its precondition does not hold. A rewrite is meant to keep the result, and is made where its
pattern is recognised; whether it does is for the judge to say, as for all candidates.
"""

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from functools import partial

from kernelblaster.policies.rewrites.own_source import OwnSource
from kernelblaster.tasks.cuda_source import Function

Apply = Callable[[OwnSource, Function], Iterator[OwnSource]]
Technique = Callable[[OwnSource], Iterator[OwnSource]]


def load_rewrites() -> dict[str, Technique]:
    """Every technique of this folder by its name, which is its file's name."""
    found: dict[str, Technique] = {}
    for place in pkgutil.iter_modules(__path__):
        module = importlib.import_module(f"{__name__}.{place.name}")
        found[place.name] = partial(_on_each_kernel, module.apply)
    return found


def _on_each_kernel(apply: Apply, source: OwnSource) -> Iterator[OwnSource]:
    launched = {kernel.name for kernel in source.kernels}
    for kernel in source.tree.kernels:
        if kernel.name in launched:
            yield from (new for new in apply(source, kernel) if new.text != source.text)
