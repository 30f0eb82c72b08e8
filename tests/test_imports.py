"""Imports point one way: a layer may use itself and the layers above it in this list."""

import ast
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src" / "kernelblaster"
LAYERS = [
    {"building", "errors", "passwords", "plain_text", "quantities", "shortage", "survivors", "variables"},
    {"settings"},
    {"keeper"},
    {"strict_json"},
    {"durability", "processes", "scratch"},
    {"cache"},
    {"confinement"},
    {"records"},
    {"ptx"},
    {"tasks"},
    {"devices"},
    {"judge"},
    {"databases"},
    {"knowledge"},
    {"store"},
    {"sessions"},
    {"models"},
    {"keeping"},
    {"policies"},
    {"search"},
    {"optimize"},
    {"export", "verify"},
    {"proof", "readiness"},
    {"doctor", "opening"},
    {"fleet"},
    {"bench"},
    {"report"},
    {"api"},
    {"serve"},
    {"mcp"},
    {"testing"},
    {"cli"},
    {"__init__", "__main__"},
]
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}


def layer_of(path: Path) -> str:
    relative = path.relative_to(SOURCE)
    return relative.parts[0].removesuffix(".py")


def imported_layers(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = (
                [node.module]
                if node.module != "kernelblaster"
                else [f"kernelblaster.{alias.name}" for alias in node.names]
            )
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        found |= {name.split(".")[1] for name in names if name.startswith("kernelblaster.")}
    return found


def test_imports_point_upwards() -> None:
    wrong = []
    for path in sorted(SOURCE.rglob("*.py")):
        own = layer_of(path)
        for other in imported_layers(path):
            if RANK[other] > RANK[own]:
                wrong.append(f"{path.relative_to(SOURCE)} imports {other}")
    assert wrong == []


def test_records_know_neither_torch_nor_files() -> None:
    for path in (SOURCE / "records").glob("*.py"):
        text = path.read_text()
        assert "import torch" not in text and "pathlib" not in text, path


def test_no_file_is_called_utils() -> None:
    banned = {"utils", "common", "helpers", "manager", "base"}
    assert not [path for path in SOURCE.rglob("*.py") if path.stem in banned]
