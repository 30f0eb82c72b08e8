"""Mutations: work that is left out, such as terms of a sum, part of a row, statements, whole calls."""

import re
from collections.abc import Iterator

from kernelblaster.tasks.cuda_source import operator, sides, text
from kernelblaster.testing.mutations.tree import Code, Mutation, insert, replace, short

EVERY = 7  # which term of a loop is skipped


def edits(code: Code) -> Iterator[Mutation]:
    """Yields every way to break the kernel by leaving out a part of its work. `code` is the parsed CUDA
    source."""
    yield from _skipped_terms(code)
    yield from _partial_rows(code)
    yield from _shorter_exchange(code)
    yield from _dropped_statements(code)
    yield from _dropped_operands(code)
    yield from _fixed_sizes(code)


def _skipped_terms(code: Code) -> Iterator[Mutation]:
    """Yields mutations that each let one loop skip every EVERY-th (7th) iteration. `code` is the parsed CUDA
    source."""
    for loop in code.loops():
        test = f"if ({loop.variable} % {EVERY} != {EVERY - 1}) "
        yield insert(loop.body.start_byte, test, f"{short(loop.node)}: every {EVERY}th turn skipped")


def _partial_rows(code: Code) -> Iterator[Mutation]:
    """Yields mutations in which one loop covers only a part of its range: half, seven eighths, or at most
    1024 elements. `code` is the parsed CUDA source."""
    for loop in code.loops():
        if re.fullmatch(r"\d+", text(loop.bound)):
            continue
        bound = f"({text(loop.bound)})"
        for what, new in (
            ("first half only", f"{bound} - {bound} / 2"),
            ("all but an eighth", f"{bound} - {bound} / 8"),
            ("at most 1024", f"({bound} < 1024 ? {bound} : 1024)"),
        ):
            yield replace(loop.bound, new, f"{short(loop.bound)}: {what}")


def _shorter_exchange(code: Code) -> Iterator[Mutation]:
    """Yields mutations in which one tree reduction (a loop with a halving distance) begins with half of its
    first distance. `code` is the parsed CUDA source."""
    for loop in code.device("for_statement"):
        start, update = loop.child_by_field_name("initializer"), loop.child_by_field_name("update")
        if start is None or not re.search(r"/=|>>=", text(update)):
            continue
        for declared in start.named_children:
            value = declared.child_by_field_name("value")
            if declared.type == "init_declarator" and value is not None:
                yield replace(value, f"({text(value)}) / 2", f"{short(declared)}: half of the distance")


def _dropped_statements(code: Code) -> Iterator[Mutation]:
    """Yields mutations that each drop one statement that accumulates: `+=`, `*=`, `-=`, fma, max. `code` is
    the parsed CUDA source."""
    for node in code.device("expression_statement"):
        inner = node.named_children[0] if node.named_children else None
        if inner is None or inner.type != "assignment_expression":
            continue
        if operator(inner) in ("+=", "*=", "-=") or "fma" in text(inner) or "max" in text(inner):
            yield replace(node, ";", f"drop {short(node)}")


def _dropped_operands(code: Code) -> Iterator[Mutation]:
    """Yields mutations that each drop the second term of a sum or factor of a product: a bias, a weight, a
    correction. `code` is the parsed CUDA source."""
    for node in code.device("binary_expression"):
        pair = sides(node)
        if pair is None or operator(node) not in ("+", "*") or not all(map(code.is_floating, pair)):
            continue
        yield replace(node, text(pair[0]), f"{short(node)}: {short(pair[1])} left out")


def _fixed_sizes(code: Code) -> Iterator[Mutation]:
    """Yields mutations in which the launch function uses a size of the primary workload (the sizes that are
    timed) instead of the one given, or returns at once if a size is above half of that. `code` is the parsed
    CUDA source."""
    entry = code.entry()
    if entry is None:
        return
    for name, extent in code.sizes.items():
        yield insert(entry, f" {name} = {extent};", f"size {name} hard-coded to {extent}")
        new = f" if ({name} > {extent // 2}) return;"
        yield insert(entry, new, f"nothing done for large {name}", "nothing is written")
