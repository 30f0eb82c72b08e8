"""Mutations: wrong assumptions about sizes, such as multiples of four, rows no longer than a block, nothing
above the primary size."""

from collections.abc import Iterator

from kernelblaster.tasks.cuda_source import operator, sides, text
from kernelblaster.testing.mutations.tree import Code, Mutation, insert, replace, short

MULTIPLES = (4, 32)


def edits(code: Code) -> Iterator[Mutation]:
    """Yields every way to break the kernel by one wrong assumption about sizes, such as rows being no longer
    than a block. `code` is the parsed CUDA source."""
    yield from _divisible(code)
    yield from _one_turn(code)
    yield from _launched(code)


def _divisible(code: Code) -> Iterator[Mutation]:
    """Yields mutations that each replace one test like `n % 4 == 0` by true, so that the kernel takes
    divisibility for granted. `code` is the parsed CUDA source."""
    for node in code.nodes:
        pair = sides(node) if node.type == "binary_expression" and operator(node) == "==" else None
        if pair is not None and operator(pair[0]) == "%" and text(pair[1]) == "0" and "Idx" not in text(node):
            yield replace(node, "true", f"{short(node)} taken for granted")


def _one_turn(code: Code) -> Iterator[Mutation]:
    """Yields mutations in which one strided loop over a row runs once: correct only for rows no longer than
    the block. `code` is the parsed CUDA source."""
    for loop in code.loops():
        if loop.step != "1":
            new = f"{loop.variable} = {text(loop.bound)}"
            yield replace(loop.update, new, f"{short(loop.node)}: one turn only")


def _launched(code: Code) -> Iterator[Mutation]:
    """Yields mutations in which the launch function rounds a size down to a multiple of 4 or 32, or limits it
    to its value in the primary workload (the sizes that are timed). `code` is the parsed CUDA source."""
    entry = code.entry()
    if entry is None:
        return
    for name, extent in code.sizes.items():
        for by in MULTIPLES:
            if extent % by == 0:
                new = f" {name} = {name} / {by} * {by};"
                yield insert(entry, new, f"size {name} taken for a multiple of {by}")
        new = f" if ({name} > {extent}) {name} = {extent};"
        yield insert(entry, new, f"size {name} taken for at most {extent}", "what lies beyond is left out")
