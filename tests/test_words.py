"""One word for each thing: no two public classes share a name, and riddles stay out of names."""

import ast
import re
from collections import defaultdict
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src" / "kernelblaster"
LEFT_OUT = Path("policies", "expert")  # its plan is described in docs/expert.md by its own terms
BANNED = {"going_on", "lasting", "met", "onward", "taking", "told", "turns", "upon"}
VAGUE = {"base", "common", "helpers", "manager", "misc", "utils"}


@cache
def all_trees() -> dict[Path, ast.Module]:
    return {path.relative_to(SOURCE): ast.parse(path.read_text()) for path in SOURCE.rglob("*.py")}


def trees() -> dict[Path, ast.Module]:
    return {path: tree for path, tree in all_trees().items() if not path.is_relative_to(LEFT_OUT)}


def test_class_names_are_unique() -> None:
    defined = defaultdict(list)
    for path, tree in all_trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                defined[node.name].append(str(path))
    assert {name: paths for name, paths in defined.items() if len(paths) > 1} == {}


def test_modules_and_functions_have_names_that_say_something() -> None:
    modules = {str(path) for path in trees() if {*path.with_suffix("").parts} & (BANNED | VAGUE)}
    functions = {
        f"{path}: {node.name}"
        for path, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.name.strip("_") in BANNED
    }
    assert (modules, functions) == (set(), set())


def test_every_module_says_what_it_does() -> None:
    silent = [path for path, tree in trees().items() if tree.body and ast.get_docstring(tree) is None]
    assert silent == []


def test_an_sm_is_an_sm() -> None:
    """In docstrings; the names of CUDA's own functions and of metrics are theirs."""
    texts = (
        (path, ast.get_docstring(node) or "")
        for path, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
    )
    assert {str(path) for path, text in texts if re.search(r"\bmultiprocessors?\b", text)} == set()
