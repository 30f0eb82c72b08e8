"""What is installed is whole: every file that the package reads, and every page that its messages cite."""

import ast
import re
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "kernelblaster"
WHEEL = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
PLACE = re.compile(r"\b(?:docs|examples|suites|results|benchmarks|tests)/[\w./-]*\w")


def ignored() -> list[str]:
    lines = (ROOT / ".gitignore").read_text().splitlines()
    return [line.rstrip("/") for line in lines if line and not line.startswith("#")]


def messages(file: Path) -> Iterator[str]:
    """The strings of a file, parts of formatted ones included, without its docstrings."""
    tree = ast.parse(file.read_text())
    bare = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in bare:
            yield node.value


def test_the_wheel_leaves_nothing_out() -> None:
    """The packages are taken whole: no pattern chooses among their files, and git ignores none of them."""
    assert set(WHEEL) == {"packages", "force-include"} and WHEEL["packages"] == ["src/kernelblaster"]
    files = [path for path in PACKAGE.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    data = [path for path in files if path.suffix != ".py"]
    assert {".cpp", ".h", ".cuh", ".css", ".js", ".md", ".toml"} <= {path.suffix for path in data}
    assert PACKAGE / "py.typed" in data  # annotations are for users too
    for path in data:
        way = path.relative_to(ROOT)
        hidden = [p for p in ignored() if fnmatch(str(way), p) or any(fnmatch(part, p) for part in way.parts)]
        assert not hidden, way


def test_suites_docs_and_examples_are_inside() -> None:
    assert WHEEL["force-include"] == {
        name: f"kernelblaster/{name}" for name in ("docs", "examples", "suites")
    }
    for name in WHEEL["force-include"]:
        assert any((ROOT / name).iterdir())


def test_what_messages_cite_is_installed() -> None:
    cited = {
        (str(file.relative_to(PACKAGE)), place)
        for file in PACKAGE.rglob("*.py")
        for text in messages(file)
        for place in PLACE.findall(text)
    }
    assert len(cited) > 10
    missing = {(file, place) for file, place in cited if place.split("/")[0] not in WHEEL["force-include"]}
    missing |= {(file, place) for file, place in cited if not (ROOT / place).exists()}
    assert missing == set()
