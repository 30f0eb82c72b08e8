"""Loop exchange: swaps x and y of threads and blocks, in the kernel and at its launch, so that what was the y
index runs across the lanes of a warp."""

import re
from collections.abc import Iterator

from tree_sitter import Node

from kernelblaster.policies.rewrites.own_source import OwnSource
from kernelblaster.tasks.cuda_source import Edit, Function, bare, dimensions, replaced, text, walk

INDICES = {"threadIdx", "blockIdx", "blockDim", "gridDim"}
OTHER = {"x": "y", "y": "x"}


def apply(source: OwnSource, kernel: Function) -> Iterator[OwnSource]:
    """Yields one source, with x and y swapped in the kernel and its launches. Nothing unless grid and block
    of every launch have at least two dimensions and the kernel uses x or y of `threadIdx`, `blockIdx`,
    `blockDim` or `gridDim`."""
    edits: list[Edit] = []
    for launch in source.tree.launches_of(kernel.name):
        for shape in (dimensions(launch, launch.grid), dimensions(launch, launch.block)):
            if len(shape) < 2:
                return
            edits += _swapped(shape[0], shape[1], text(bare(launch.block)))
    swapped = list(_fields(kernel, INDICES))
    if edits and swapped:
        yield source.edited([*edits, *swapped])


def _swapped(first: Node, second: Node, block: str) -> Iterator[Edit]:
    """Edits that swap the texts of `first` and `second`, the x and y dimension of a launch's grid or block.
    `block` is the name of the variable with the block's shape: `block.x` in a dimension becomes `block.y` and
    the other way round."""
    for node, other in ((first, second), (second, first)):
        yield replaced(node, re.sub(rf"\b({re.escape(block)})\.([xy])\b", _other, text(other)))


def _other(found: re.Match[str]) -> str:
    """The text to replace a match of `NAME.x` or `NAME.y` by: the same name with the other of the two."""
    return f"{found[1]}.{OTHER[found[2]]}"


def _fields(kernel: Function, owners: set[str]) -> Iterator[Edit]:
    """Edits that swap `.x` and `.y` of the built-in variables `owners` (such as `threadIdx`) in a kernel."""
    for node in walk(kernel.body, "field_expression"):
        owner, name = node.child_by_field_name("argument"), node.child_by_field_name("field")
        if name is not None and text(owner) in owners and text(name) in OTHER:
            yield replaced(name, OTHER[text(name)])
