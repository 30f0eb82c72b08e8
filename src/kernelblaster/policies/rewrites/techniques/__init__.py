"""Rewrites of a source's text, one file each; a new technique is one new file, named as the knowledge base
names it.

A technique's `apply(source, kernel)` yields every source that one application of it to a kernel can give:
none where its precondition does not hold. A rewrite is meant to keep the result, and is made where its
pattern is recognised; whether it does is for the judge to say, as for all candidates.
"""

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import replace
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
    """With every kernel changed to which the technique applies; then with one of them at a time."""
    names = [kernel.name for kernel in source.kernels]
    if len(names) > 1:
        everywhere = source
        for name in names:
            everywhere = next(_on(apply, everywhere, name), everywhere)
        if len(set(everywhere.rewritten[len(source.rewritten) :])) > 1:
            yield everywhere
    for name in names:
        yield from _on(apply, source, name)


def _on(apply: Apply, source: OwnSource, name: str) -> Iterator[OwnSource]:
    kernel = source.tree.function(name)
    assert kernel is not None, name
    for new in apply(source, kernel):
        if new.text != source.text:
            yield replace(new, rewritten=(*source.rewritten, name))
