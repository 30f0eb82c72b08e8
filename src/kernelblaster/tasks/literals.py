"""Finds the integer literals in a Python file that may be sizes, and compiles the file with other values
instead.

Equal literals are taken for one size and replaced together: `Linear(784, 10)` and `randn(64, 784)` then still
fit each other. Whether the module still works with the new values is found by running it (tasks/small.py).
"""

import ast
from collections.abc import Mapping
from types import CodeType

LEAST = 4  # smaller ones are axes, counts and flags
BESIDE_MARK = "# --- the file itself ---"


def literals_of(source: str) -> list[int]:
    """Returns the integers written out in a Python source that may be sizes of tensors: the distinct literals
    from 4 on (LEAST), the largest first."""
    values = {node.value for node in ast.walk(ast.parse(source)) if _is_size(node)}  # type: ignore[attr-defined]
    return sorted(values, reverse=True)


def compiled(source: str, path: str, replaced: Mapping[int, int]) -> CodeType:
    """Compiles a Python source and returns the code object. `replaced` maps values of integer literals to the
    values that they get instead. `path` is the file's name in tracebacks. Lines that KernelBlaster inserted
    before the user's file (see `lines_before`) are not counted, so that tracebacks have the line numbers of
    the user's file."""
    tree = ast.parse(source, path)
    if replaced:
        tree = ast.fix_missing_locations(_Replaced(replaced).visit(tree))
    mark = lines_before(source)
    for statement in tree.body:
        if mark and statement.lineno > mark:
            ast.increment_lineno(statement, -mark)
    return compile(tree, path, "exec")


def lines_before(source: str) -> int:
    """Returns how many lines KernelBlaster has inserted into `source` before the user's own text, such as
    embedded local modules; the last of them is the comment BESIDE_MARK. 0 if there is no such comment."""
    return next((n for n, line in enumerate(source.split("\n"), 1) if line == BESIDE_MARK), 0)


class _Replaced(ast.NodeTransformer):
    """A syntax tree transformer that writes other values in place of integer literals; it is given a mapping
    from old to new."""

    def __init__(self, replaced: Mapping[int, int]) -> None:
        self._replaced = replaced

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if _is_size(node) and node.value in self._replaced:
            return ast.copy_location(ast.Constant(self._replaced[node.value]), node)  # type: ignore[index]
        return node


def _is_size(node: ast.AST) -> bool:
    """Whether a node of a syntax tree is an integer literal that may be a size of a tensor: at least LEAST,
    and no bool."""
    return isinstance(node, ast.Constant) and type(node.value) is int and node.value >= LEAST
