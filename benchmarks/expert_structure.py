"""The expert's folder at two revisions: files and lines of each part, and what imports emission.

    python benchmarks/expert_structure.py BEFORE [AFTER] [--out results/expert-structure.md]

Revisions are git's; AFTER is HEAD unless given. Parts are folders; emission was called families before.
An import of emission by anything that decides what is emitted (techniques, plan, analysis) is counted."""

import argparse
import ast
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

ROOT = "src/kernelblaster/policies/expert/"
EMISSION = ("emission", "families", "emit")
TOP = "plan and analysis"


def git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], check=True, capture_output=True, text=True).stdout


def sources(revision: str) -> dict[PurePosixPath, str]:
    """The Python files of the expert at a revision, by path within its folder."""
    names = git("ls-tree", "-r", "--name-only", revision, ROOT).split()
    return {
        PurePosixPath(name.removeprefix(ROOT)): git("show", f"{revision}:{name}")
        for name in names
        if name.endswith(".py")
    }


def part(path: PurePosixPath) -> str:
    if len(path.parts) > 1:
        return path.parts[0]
    return "emission" if path.stem in EMISSION else TOP


def imported(source: str) -> Iterator[str]:
    """Parts of the expert that a file imports."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module and ".expert" in node.module:
            yield node.module.split(".expert", 1)[1].strip(".").split(".")[0]


def counts(revision: str) -> dict[str, tuple[int, int]]:
    files: Counter[str] = Counter()
    lines: Counter[str] = Counter()
    for path, source in sources(revision).items():
        files[part(path)] += 1
        lines[part(path)] += source.count("\n")
    return {name: (files[name], lines[name]) for name in files}


def imports_of_emission(revision: str) -> int:
    """How often files that decide import those that write."""
    deciding = ("techniques", TOP, "schedules", "combines", "rules", "operators")
    return sum(
        found in EMISSION
        for path, source in sources(revision).items()
        if part(path) in deciding and path.stem not in ("policy", "technique_table")
        for found in imported(source)
    )


def lines(before: str, after: str) -> Iterator[str]:
    yield "# The expert's folder, before and after\n"
    first, then = counts(before), counts(after)
    yield f"| files, lines | {before} | {after} |\n|---|---|---|"
    for name in sorted(first.keys() | then.keys()):
        cells = [", ".join(map(str, found[name])) if name in found else "" for found in (first, then)]
        yield f"| {name} | {cells[0]} | {cells[1]} |"
    totals = [f"{sum(f for f, _ in c.values())}, {sum(n for _, n in c.values())}" for c in (first, then)]
    yield f"| all | {totals[0]} | {totals[1]} |"
    yield f"| imports of emission | {imports_of_emission(before)} | {imports_of_emission(after)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("before")
    parser.add_argument("after", nargs="?", default="HEAD")
    parser.add_argument("--out", type=Path, help="write the table to this file too")
    options = parser.parse_args()
    written = list(lines(options.before, git("rev-parse", "--short", options.after).strip()))
    print("\n".join(written))
    if options.out:
        options.out.write_text("\n".join(written) + "\n")


if __name__ == "__main__":
    main()
