"""Mutations: indices and bounds that are off by one, swapped, or strided wrongly."""

from collections.abc import Iterator

from tree_sitter import Node

from kernelblaster.tasks.cuda_source import operator, sides, text
from kernelblaster.testing.mutations.tree import Code, Mutation, insert, replace, short, within

_COMPARISONS = {"<": "<=", "<=": "<", ">=": ">", ">": ">="}


def edits(code: Code) -> Iterator[Mutation]:
    """Yields every way to break the kernel by one wrong index, bound, stride or axis. `code` is the parsed
    CUDA source."""
    yield from _bounds(code)
    yield from _subscripts(code)
    yield from _swapped(code)
    yield from _strides(code)
    yield from _starts(code)
    yield from _axes(code)


def _bounds(code: Code) -> Iterator[Mutation]:
    """Mutations of one integer comparison in device code: `<` becomes `<=` and the like, or the bound is one
    less."""
    for node in code.device("binary_expression"):
        pair, sign = sides(node), operator(node)
        if pair is None or sign not in _COMPARISONS or any(map(code.is_floating, pair)):
            continue
        if within(node, "template_argument_list"):
            continue
        left, right = text(pair[0]), text(pair[1])
        if right != "0":  # halving distances stay at zero: an endless loop
            other = _COMPARISONS[sign]
            yield replace(node, f"{left} {other} {right}", f"{short(node)}: {other}")
            yield replace(node, f"{left} {sign} {right} - 1", f"{short(node)}: bound less one")


def _subscripts(code: Code) -> Iterator[Mutation]:
    """Yields mutations that each turn one `a[i]` of device code into `a[i + 1]`. `code` is the parsed CUDA
    source."""
    for node in code.device("subscript_expression"):
        index = _index(node)
        if index is not None:
            yield insert(index.end_byte, " + 1", f"{short(node)}: index plus one")


def _swapped(code: Code) -> Iterator[Mutation]:
    """Yields mutations that each swap two indices: `a[i][j]` becomes `a[j][i]`, or `i * n + j` becomes `j * n
    + i`. `code` is the parsed CUDA source."""
    for node in code.device("subscript_expression"):
        outer, below = _index(node), node.child_by_field_name("argument")
        inner = _index(below) if below is not None and below.type == "subscript_expression" else None
        if outer is not None and inner is not None and text(outer) != text(inner):
            changes = (
                (inner.start_byte, inner.end_byte, text(outer)),
                (outer.start_byte, outer.end_byte, text(inner)),
            )
            yield Mutation(node.start_byte, f"{short(node)}: indices swapped", changes)
    for node in code.device("binary_expression"):
        pair = sides(node)
        if pair is None or operator(node) != "+" or code.is_floating(node) or operator(pair[0]) != "*":
            continue
        product = sides(pair[0])
        if product is not None and pair[1].type in ("identifier", "field_expression"):
            new = f"{text(pair[1])} * {text(product[1])} + {text(product[0])}"
            yield replace(node, new, f"{short(node)}: indices swapped")


def _strides(code: Code) -> Iterator[Mutation]:
    """Yields mutations that each make one stride wrong: `i * n` becomes `i * (n + 1)`, or a loop's step one
    more. `code` is the parsed CUDA source."""
    for node in code.device("binary_expression"):
        pair = sides(node)
        if pair is None or operator(node) != "*" or code.is_floating(node):
            continue
        if pair[1].type == "identifier":
            new = f"{text(pair[0])} * ({text(pair[1])} + 1)"
            yield replace(node, new, f"{short(node)}: stride plus one")
    for loop in code.loops():
        if loop.step != "1":
            new = f"{loop.variable} += {loop.step} + 1"
            yield replace(loop.update, new, f"{short(loop.update)}: step plus one")


def _starts(code: Code) -> Iterator[Mutation]:
    """Yields mutations that each let one counting loop begin one later. `code` is the parsed CUDA source."""
    for loop in code.loops():
        start = loop.node.child_by_field_name("initializer")
        value = next((n for n in _below(start) if n.type == "init_declarator"), None)
        if value is not None:
            yield insert(value.end_byte, " + 1", f"{short(value)}: start plus one")


def _axes(code: Code) -> Iterator[Mutation]:
    """Yields mutations that each take the wrong axis once: `threadIdx.y` or `blockIdx.y` in place of `.x`.
    `code` is the parsed CUDA source."""
    for node in code.device("field_expression"):
        if text(node) in ("threadIdx.x", "blockIdx.x"):
            yield replace(node, text(node)[:-1] + "y", f"{text(node)}: other axis")


def _index(node: Node) -> Node | None:
    """The expression between the brackets of `a[i]`, given as a node of the syntax tree; None if there are
    several."""
    indices = node.child_by_field_name("indices")
    inner = indices.named_children if indices is not None else []
    return inner[0] if len(inner) == 1 else None


def _below(node: Node | None) -> list[Node]:
    """The child nodes of a node of the syntax tree, without punctuation; empty for None."""
    return node.named_children if node is not None else []
