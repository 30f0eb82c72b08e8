"""What the architecture page, its picture and the glossary say is so."""

import ast
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.test_imports import LAYERS, SOURCE, imported_layers

DOCS = Path(__file__).parent.parent / "docs"
PAGE = (DOCS / "architecture.md").read_text()


def defined(file: str) -> set[str]:
    """Functions and classes of a source, methods as `Class.method`."""
    tree = ast.parse((SOURCE / file).read_text())
    names = set()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            names |= {f"{node.name}.{one.name}" for one in node.body if isinstance(one, ast.FunctionDef)}
    return names


def test_every_package_has_its_place() -> None:
    packages = {name for names in LAYERS for name in names if (SOURCE / name).is_dir()}
    assert {name for name in packages if f"{name}/" not in PAGE} == set()


def test_the_files_that_are_named_exist() -> None:
    glossary = (DOCS / "glossary.md").read_text()
    named = re.findall(r"`((?:\w+/)+\w+(?:\.py)?)`", PAGE + glossary)
    assert named and {name for name in named if not (SOURCE / name).exists()} == set()


def test_one_step_is_told_as_it_is() -> None:
    rows = re.findall(r"^\| \w+ \| .* \| `(MaicRl\.\w+)` \| `([\w/.]+)` `([\w.]+)` \|$", PAGE, re.MULTILINE)
    assert len(rows) == 8
    loop = defined("search/loop.py")
    for method, file, name in rows:
        assert method in loop and name in defined(file), (method, file, name)


ARROWS = [
    (arrow.attrib["data-by"], arrow.attrib["data-uses"])
    for arrow in ElementTree.parse(DOCS / "flow.svg").iter("{http://www.w3.org/2000/svg}path")
    if arrow.attrib["class"] in ("line", "teach")
]


@pytest.mark.parametrize(("by", "uses"), ARROWS)
def test_arrows_of_the_picture_are_imports(by: str, uses: str) -> None:
    """Whoever carries something from one box to the next imports both."""
    assert set(uses.split()) <= imported_layers(SOURCE / by) | {by.split("/", maxsplit=1)[0]}
