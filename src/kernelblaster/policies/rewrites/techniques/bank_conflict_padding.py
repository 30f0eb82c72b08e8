"""Padding against bank conflicts: each row of a two-dimensional array in shared memory becomes one element
longer."""

from collections.abc import Iterator

from kernelblaster.policies.rewrites.own_source import OwnSource
from kernelblaster.tasks.cuda_source import Edit, Function, inserted, text, walk


def apply(source: OwnSource, kernel: Function) -> Iterator[OwnSource]:
    """Yields one source, in which every two-dimensional `__shared__` array of the kernel with a fixed size
    has rows longer by one element. Nothing if the kernel has no such array."""
    edits: list[Edit] = []
    for node in walk(kernel.body, "declaration"):
        if "__shared__" not in text(node) or "extern" in text(node):
            continue
        for array in node.children_by_field_name("declarator"):
            inner, size = array.child_by_field_name("declarator"), array.child_by_field_name("size")
            tile = array.type == "array_declarator" and inner is not None and inner.type == "array_declarator"
            if tile and size is not None and "+" not in text(size):
                edits.append(inserted(size.end_byte, " + 1"))
    if edits:
        yield source.edited(edits)
