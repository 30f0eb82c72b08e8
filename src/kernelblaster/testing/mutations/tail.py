"""Mutations: the end of a row or of the grid is left out."""

from collections.abc import Iterator

from kernelblaster.tasks.cuda_source import operator, sides, text
from kernelblaster.testing.mutations.tree import Code, Mutation, replace, short


def edits(code: Code) -> Iterator[Mutation]:
    """Yields every way to break the kernel by leaving out the end of a row or of the grid. `code` is the
    parsed CUDA source."""
    yield from _rounded_down(code)
    yield from _dropped_else(code)
    yield from _dropped_tail_loops(code)
    yield from _whole_strides(code)


def _rounded_down(code: Code) -> Iterator[Mutation]:
    """Yields mutations in which one division that rounds up rounds down, on host or device: `(n + 255) / 256`
    becomes `n / 256`, but at least 1. `code` is the parsed CUDA source."""
    for node in code.nodes:
        pair = sides(node) if node.type == "binary_expression" and operator(node) == "/" else None
        if pair is None or pair[0].type != "parenthesized_expression" or code.is_floating(node):
            continue
        inner = pair[0].named_children[0]
        while inner.type == "binary_expression" and operator(inner) in "+-":
            halves = sides(inner)
            if halves is None:
                break
            inner = halves[0]
        if inner.id != pair[0].named_children[0].id:
            down = f"({text(inner)}) / {text(pair[1])}"
            yield replace(node, f"({down} > 0 ? {down} : 1)", f"{short(node)}: rounded down")


def _dropped_else(code: Code) -> Iterator[Mutation]:
    """Yields mutations that each drop one else branch of device code; these often handle what is left at the
    end of a row. `code` is the parsed CUDA source."""
    for node in code.device("else_clause"):
        yield replace(node, "", f"drop {short(node)}")


def _dropped_tail_loops(code: Code) -> Iterator[Mutation]:
    """Yields mutations that each drop one loop without an initializer: it continues where another loop
    stopped, to handle the tail. `code` is the parsed CUDA source."""
    for loop in code.loops():
        if loop.node.child_by_field_name("initializer") is None:
            yield replace(loop.node, ";", f"drop {short(loop.node)}")


def _whole_strides(code: Code) -> Iterator[Mutation]:
    """Yields mutations in which one strided loop stops after the last whole stride, so that the rest of the
    row is left out. `code` is the parsed CUDA source."""
    for loop in code.loops():
        if loop.step != "1":
            new = f"({text(loop.bound)}) / ({loop.step}) * ({loop.step})"
            yield replace(loop.bound, new, f"{short(loop.bound)}: whole strides of {loop.step} only")
