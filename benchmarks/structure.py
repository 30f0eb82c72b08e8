"""How the code is built, in numbers: what one step crosses, how large classes are, which names occur twice.

python benchmarks/structure.py [--source src/kernelblaster] [--out results/structure.md]

With --source, another checkout's sources are counted; the step is traced in the installed package.
"""

import argparse
import ast
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from publish import publish

ROOT = Path(__file__).parent.parent
TASK = "core/level1/softmax"
GLOSSARY = ROOT / "docs" / "glossary.md"
LARGEST, FREQUENT = 5, 10


def trees(source: Path) -> Iterator[tuple[Path, ast.Module]]:
    for path in sorted(source.rglob("*.py")):
        yield path.relative_to(source), ast.parse(path.read_text())


def classes(source: Path) -> Iterator[tuple[Path, ast.ClassDef]]:
    for path, tree in trees(source):
        yield from ((path, node) for node in ast.walk(tree) if isinstance(node, ast.ClassDef))


def repeated_names(source: Path) -> dict[str, int]:
    """Names of several public classes, each with their number."""
    counted = Counter(node.name for _, node in classes(source) if not node.name.startswith("_"))
    return {name: count for name, count in sorted(counted.items()) if count > 1}


def largest_classes(source: Path) -> list[tuple[int, str]]:
    """By their methods, without properties' setters."""
    sizes = [
        (sum(isinstance(n, ast.FunctionDef) for n in node.body), f"{node.name} ({path})")
        for path, node in classes(source)
    ]
    return sorted(sizes, reverse=True)[:LARGEST]


def longest_signatures(source: Path) -> list[tuple[int, str]]:
    sizes = [
        (len(node.args.args) + len(node.args.kwonlyargs), f"{node.name} ({path})")
        for path, tree in trees(source)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
    ]
    return sorted(sizes, reverse=True)[:LARGEST]


def longest_files(source: Path) -> list[tuple[int, str]]:
    sizes = [
        (len(path.read_text().splitlines()), str(path.relative_to(source))) for path in source.rglob("*.py")
    ]
    return sorted(sizes, reverse=True)[:LARGEST]


def lines_by_package(source: Path) -> Counter[str]:
    counted: Counter[str] = Counter()
    for path in source.rglob("*.py"):
        relative = path.relative_to(source)
        counted[relative.parts[0] if len(relative.parts) > 1 else "(top)"] += len(
            path.read_text().splitlines()
        )
    return counted


def frequent_words(source: Path) -> list[tuple[int, str]]:
    """The words of the glossary that docstrings use most, singular and plural together, with how often; names
    in backticks do not count."""
    rows = [line.split("|")[1] for line in GLOSSARY.read_text().splitlines() if line.startswith("| ")]
    terms = {term.strip() for row in rows for term in row.split(",")} - {"word"}
    nodes = (node for _, tree in trees(source) for node in ast.walk(tree))
    documented = (node for node in nodes if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef))
    text = " ".join(ast.get_docstring(node) or "" for node in documented).lower()
    plain = re.sub(r"\s+", " ", re.sub(r"`[^`]*`", "", text))
    sizes = [(len(re.findall(rf"\b{re.escape(term.lower())}s?\b", plain)), term) for term in terms]
    return sorted(sizes, reverse=True)[:FREQUENT]


def step_files() -> set[str]:
    """The files in which functions ran during the first step of a search, from profiling the first candidate
    to having learned from its steps; the judge answers at once."""
    from loop import AtOnce, Made

    from kernelblaster.api import load_task
    from kernelblaster.knowledge import KnowledgeBase, plant
    from kernelblaster.optimize import optimize
    from kernelblaster.policies.expert.policy import ExpertPolicy
    from kernelblaster.sessions.settings import Search
    from kernelblaster.store.run import create_run

    task = load_task(TASK)
    policy = Made(ExpertPolicy().initial(task))
    seen: set[str] = set()

    def trace(frame: FrameType, event: str, _: Any) -> None:
        name = frame.f_code.co_filename
        if event == "call" and "/kernelblaster/" in name:
            seen.add(name.split("/kernelblaster/")[-1])

    with tempfile.TemporaryDirectory() as folder, KnowledgeBase(Path(folder) / "kb.db") as knowledge:
        plant(knowledge)
        with create_run(Path(folder)) as run:
            sys.setprofile(trace)
            try:
                once = Search(iterations=1, steps=1)
                optimize(task, AtOnce(), knowledge, run, once, policy)
            finally:
                sys.setprofile(None)
    return seen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--source", type=Path, default=ROOT / "src" / "kernelblaster")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    source, files = arguments.source, step_files()
    outside = {file for file in files if not file.startswith("policies/expert/")}
    packages = {file.split("/")[0] for file in files}
    repeated = repeated_names(source)
    told = ", ".join(f"{name} {count}" for name, count in repeated.items())
    lines = [
        "# How the code is built, in numbers",
        "",
        f"- One step of a search runs code of {len(packages)} packages and {len(files)} files, "
        f"{len(outside)} of them outside of the expert policy.",
        f"- Public classes: {len(list(classes(source)))}; names that several have: {len(repeated)} ({told}).",
        f"- Largest classes by methods: {_listed(largest_classes(source))}.",
        f"- Longest signatures by parameters: {_listed(longest_signatures(source))}.",
        f"- Longest files by lines: {_listed(longest_files(source))}.",
        f"- Words of the glossary that docstrings use most: {_listed(frequent_words(source))}.",
        "",
        "| package | lines |",
        "|---|---|",
        *(f"| {name} | {count} |" for name, count in sorted(lines_by_package(source).items())),
    ]
    publish(lines, arguments.out)


def _listed(sizes: list[tuple[int, str]]) -> str:
    return ", ".join(f"{name} {size}" for size, name in sizes)


if __name__ == "__main__":
    main()
