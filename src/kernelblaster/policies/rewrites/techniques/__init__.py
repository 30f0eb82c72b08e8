"""Techniques that rewrite the text of a CUDA source, one file each, named as the technique is in the
knowledge base; `load_rewrites` collects them.

Each file has a function `apply(source, kernel)`. It yields every new source that one application of the
technique to that kernel can give, and nothing if the pattern that the technique looks for is not there. A
rewrite is meant to keep the kernel's results; whether it does is found out when the new candidate is
judged."""

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
    """Returns every technique of this folder by its name, which is the file's. A technique is a function that
    gets a source and yields the sources that one application can give. If it applies to several kernels, all
    of these are rewritten in the first source, and only one in each further source."""
    rewrites: dict[str, Technique] = {}
    for file in pkgutil.iter_modules(__path__):
        module = importlib.import_module(f"{__name__}.{file.name}")
        rewrites[file.name] = partial(_on_each_kernel, module.apply)
    return rewrites


def _on_each_kernel(apply: Apply, source: OwnSource) -> Iterator[OwnSource]:
    """What a technique (`apply`) makes of a source: first, if it applies to several kernels, the source with
    all of these changed; then the sources with one kernel changed each."""
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
    """Applies the technique `apply` to the kernel named `name` of `source`, and yields each resulting source
    that differs from `source`, with `name` added to its `rewritten`, the names of the kernels changed so
    far."""
    kernel = source.tree.function(name)
    assert kernel is not None, name
    for new in apply(source, kernel):
        if new.text != source.text:
            yield replace(new, rewritten=(*source.rewritten, name))
