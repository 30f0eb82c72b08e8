"""Mutations: uninitialized, wrongly initialized or leftover values; inputs that are written."""

import re
from collections.abc import Iterator

from kernelblaster.tasks.cuda_source import operator, sides, text
from kernelblaster.testing.mutations.tree import Code, Mutation, insert, replace, short


def edits(code: Code) -> Iterator[Mutation]:
    """Yields every way to break the kernel by one initial value that is missing or wrong, or by a write to an
    input. `code` is the parsed CUDA source."""
    yield from _without_initial_value(code)
    yield from _dropped_resets(code)
    yield from _wrong_extremes(code)
    yield from _written_inputs(code)


def _without_initial_value(code: Code) -> Iterator[Mutation]:
    """Yields mutations that each leave one variable uninitialized that should begin with zero or infinity.
    `code` is the parsed CUDA source."""
    for node in code.device("init_declarator"):
        name, value = node.child_by_field_name("declarator"), node.child_by_field_name("value")
        plain = re.fullmatch(r"0|0\.f?|0\.0f?|-?INFINITY|\{\}|\{0\}|\{-INFINITY, 0\}", text(value))
        if name is not None and plain and not re.search(r"\bconst", text(node.parent)):
            yield replace(node, text(name), f"{short(node)}: not initialised")


def _dropped_resets(code: Code) -> Iterator[Mutation]:
    """Yields mutations that each drop one assignment of zero in a kernel, or one cudaMemset on the host.
    `code` is the parsed CUDA source."""
    for node in code.device("expression_statement"):
        inner = node.named_children[0] if node.named_children else None
        pair = sides(inner) if inner is not None and inner.type == "assignment_expression" else None
        if (
            inner is not None
            and pair
            and operator(inner) == "="
            and re.fullmatch(r"0|0\.0?f?", text(pair[1]))
        ):
            yield replace(node, ";", f"drop {short(node)}")
    for node in code.host("expression_statement"):
        if text(node).startswith("cudaMemset"):
            yield replace(node, ";", f"drop {short(node)}")


def _wrong_extremes(code: Code) -> Iterator[Mutation]:
    """Yields mutations that each let a maximum begin with 0 or -10 instead of -INFINITY. `code` is the parsed
    CUDA source."""
    for node in code.device("unary_expression"):
        if text(node) == "-INFINITY":
            yield replace(node, "0", "-INFINITY made 0")
            yield replace(node, "-10.0f", "-INFINITY made -10")


def _written_inputs(code: Code) -> Iterator[Mutation]:
    """Yields mutations that each let a kernel set the first element of one of its inputs to zero. `code` is
    the parsed CUDA source."""
    for kernel in code.kernels():
        body = kernel.child_by_field_name("body")
        header = text(kernel).split("{")[0]
        for found in re.finditer(
            r"const (float|__half|__nv_bfloat16)\s*\*\s*(?:__restrict__\s+)?(\w+)", header
        ):
            if body is not None:
                first = "threadIdx.x == 0 && blockIdx.x == 0"
                new = f" if ({first}) const_cast<{found[1]}*>({found[2]})[0] = 0;"
                yield insert(body.start_byte + 1, new, f"input {found[2]} written")
