"""Docstrings to be read by someone who has not seen the code: are they understood at first reading?

python benchmarks/docstrings.py [--count 40] [--seed 1] [--under judge] [--list]

Draws docstrings of modules, public classes, and public functions and methods of src/kernelblaster (with
--under, of a folder or file of it) by a seed, and prints each with its file, its qualified name and its
signature, and nothing else. With --list, all of them in order.
"""

import argparse
import ast
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from textwrap import indent

SOURCE = Path(__file__).parent.parent / "src" / "kernelblaster"


@dataclass(frozen=True)
class Documented:
    """A docstring with what a reader of `help()` sees beside it; `name` and `signature` are empty for a
    module."""

    file: str
    name: str
    signature: str
    text: str

    def __str__(self) -> str:
        head = f"{self.file}: {self.signature or 'module'}"
        return f"{head}\n\n{indent(self.text, '    ')}\n"


def documented(folder: Path) -> list[Documented]:
    """Every public docstring of the Python files below `folder` (or of that file), by file, then in the
    order of definition."""
    files = sorted(folder.rglob("*.py")) if folder.is_dir() else [folder]
    return [one for file in files for one in _of_file(file)]


def _of_file(file: Path) -> Iterator[Documented]:
    tree = ast.parse(file.read_text())
    name = str(file.relative_to(SOURCE))
    if text := ast.get_docstring(tree):
        yield Documented(name, "", "", text)
    yield from _within(name, tree, "")


def _within(file: str, tree: ast.AST, prefix: str) -> Iterator[Documented]:
    """Those of the public classes, functions and methods directly below a node, and of what these classes
    contain; functions within functions are left out."""
    for node in ast.iter_child_nodes(tree):
        if not isinstance(
            node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
        ) or node.name.startswith("_"):
            continue
        name = prefix + node.name
        if text := ast.get_docstring(node):
            yield Documented(file, name, _signature(node, name), text)
        if isinstance(node, ast.ClassDef):
            yield from _within(file, node, f"{name}.")


def _signature(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef, name: str) -> str:
    """A function with its arguments and result; a class with its bases and the arguments of its constructor,
    or its fields."""
    if not isinstance(node, ast.ClassDef):
        marks = "".join(f"@{ast.unparse(one)} " for one in node.decorator_list)
        result = f" -> {ast.unparse(node.returns)}" if node.returns else ""
        return f"{marks}{name}({ast.unparse(node.args)}){result}"
    bases = f"({', '.join(map(ast.unparse, node.bases))})" if node.bases else ""
    made = [one for one in node.body if isinstance(one, ast.FunctionDef) and one.name == "__init__"]
    fields = [ast.unparse(one) for one in node.body if isinstance(one, ast.AnnAssign)]
    inside = f", made by __init__({ast.unparse(made[0].args)})" if made else ""
    return f"class {name}{bases}{inside or (', fields ' + '; '.join(fields) if fields else '')}"


def sampled(found: Sequence[Documented], count: int, seed: int) -> list[Documented]:
    """`count` of them (all, if there are fewer), drawn by the seed."""
    return Random(seed).sample(found, min(count, len(found)))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--under", default="", help="a folder or file of src/kernelblaster")
    parser.add_argument("--list", action="store_true", help="all of them, in order")
    arguments = parser.parse_args()
    found = documented(SOURCE / arguments.under)
    for number, one in enumerate(
        found if arguments.list else sampled(found, arguments.count, arguments.seed), 1
    ):
        print(f"{number}. {one}")
    return 0 if found else 1


if __name__ == "__main__":
    sys.exit(main())
