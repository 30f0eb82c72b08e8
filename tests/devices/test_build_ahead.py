"""What is built beside pip needs nothing that pip installs, and leaves what it cannot build to others."""

import subprocess
import sys
from pathlib import Path

import pytest

from kernelblaster.devices import build_ahead
from kernelblaster.errors import NoCompiler

ROOT = Path(__file__).parents[2]


def test_it_runs_with_a_python_that_has_no_packages() -> None:
    program = "import kernelblaster.devices.build_ahead, sys; print(*sys.modules)"
    alone = [sys.executable, "-S", "-c", f"import sys; sys.path.insert(0, {str(ROOT / 'src')!r}); {program}"]
    told = subprocess.run(alone, env={}, check=True, capture_output=True, text=True)
    assert not {"torch", "pydantic", "numpy", "typer", "rich"} & set(told.stdout.split())


def test_what_cannot_be_built_is_left_to_those_who_need_it(monkeypatch: pytest.MonkeyPatch) -> None:
    built = []

    def without_nvcc() -> Path:
        raise NoCompiler("nvcc was not found")

    monkeypatch.setattr(build_ahead, "machine_library", lambda: built.append("machine"))
    monkeypatch.setattr(build_ahead, "emulating_player", without_nvcc)
    build_ahead.main()
    assert built == ["machine"]
