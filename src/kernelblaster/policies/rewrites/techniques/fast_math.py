"""Fast math: calls cheaper functions (intrinsics such as `__expf`, and `rsqrtf`), as far as the judge's
precision rule allows, and adds `f` to constants that would otherwise make arithmetic on floats double."""

import re
from collections.abc import Iterator

from kernelblaster.policies.rewrites.own_source import OwnSource
from kernelblaster.tasks.cuda_source import Edit, Function, bare, operator, replaced, sides, text, walk

INTRINSICS = {"expf": "__expf", "logf": "__logf", "log2f": "__log2f", "sinf": "__sinf", "cosf": "__cosf"}
INTRINSICS |= {"powf": "__powf", "exp10f": "__exp10f", "log10f": "__log10f"}
SINGLE = {
    name: f"{name}f" for name in ("exp", "log", "sqrt", "tanh", "pow", "fabs", "fmax", "fmin", "erf", "rsqrt")
}
DOUBLE = re.compile(r"\d+\.\d*(?:e[+-]?\d+)?|\d*\.\d+(?:e[+-]?\d+)?|\d+e[+-]?\d+")


def apply(source: OwnSource, kernel: Function) -> Iterator[OwnSource]:
    """Yields up to four sources with these changes in the kernel: first, double constants and functions
    become single; second, intrinsics and `rsqrtf` are called; third, only `rsqrtf`; fourth, all of these
    changes. Sources that would not differ are left out. Nothing if a parameter of the kernel is double."""
    if any(p.kind == "double" for p in kernel.parameters):
        return
    single = list(_single(kernel))
    functions = list(_renamed(kernel, INTRINSICS))
    roots = list(_reciprocal_roots(source, kernel))
    for edits in (single, [*functions, *roots], roots, [*single, *functions, *roots]):
        apart = _apart(edits)
        if apart:
            yield source.edited(apart)


def _renamed(kernel: Function, names: dict[str, str]) -> Iterator[Edit]:
    """Edits that rename the functions called in `kernel`; `names` maps old names to new ones."""
    for call in walk(kernel.body, "call_expression"):
        function = call.child_by_field_name("function")
        if function is not None and text(function) in names:
            yield replaced(function, names[text(function)])


def _single(kernel: Function) -> Iterator[Edit]:
    """Edits that turn double constants and functions in the kernel into single-precision ones."""
    yield from _renamed(kernel, SINGLE)
    for node in walk(kernel.body, "number_literal"):
        if DOUBLE.fullmatch(text(node)):
            yield replaced(node, f"{text(node)}f")


def _reciprocal_roots(source: OwnSource, kernel: Function) -> Iterator[Edit]:
    """Edits that replace `1.0f / sqrtf(x)` in the kernel by `rsqrtf(x)`."""
    for node in walk(kernel.body, "binary_expression"):
        pair = sides(node)
        if pair is None or operator(node) != "/" or not re.fullmatch(r"1(\.0*)?f?", text(bare(pair[0]))):
            continue
        root = bare(pair[1])
        given = root.child_by_field_name("arguments")
        if given is not None and text(root.child_by_field_name("function")) in ("sqrtf", "sqrt"):
            yield replaced(node, f"rsqrtf{source.tree.original(given)}")


def _apart(edits: list[Edit]) -> list[Edit]:
    """Those of `edits` that do not lie inside the range of another one, so that they can all be applied."""
    outer = [(begin, end) for begin, end, _ in edits]
    return [e for e in edits if not any(b <= e[0] and e[1] <= n and (b, n) != e[:2] for b, n in outer)]
