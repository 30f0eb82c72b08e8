"""What a person reads: nothing that is to be copied is broken, reasons are said once, mistakes are named."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

import kernelblaster as kb
from kernelblaster.cli import export, options, runs, tasks
from kernelblaster.cli.options import again_at
from kernelblaster.errors import KernelBlasterError
from kernelblaster.readiness import Readiness
from kernelblaster.records import Fitness
from tests.api.test_api import places
from tests.cli.test_front_door import command

__all__ = ["places"]
LONG = "+" + "x y " * 60


def test_lines_of_a_difference_are_whole(
    places: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kb.optimize(tmp_path / "task.py", budget=1, **places)
    compare = runs.compare
    monkeypatch.setattr(runs, "compare", lambda *both: {**compare(*both), "source": LONG})
    assert LONG in command("runs", "diff", "last", "last", "--runs", str(places["runs"])).stdout


def test_a_command_to_go_on_names_the_folder_only_if_it_is_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KERNELBLASTER_DATA", str(tmp_path))
    assert again_at(tmp_path / "runs") == "" and options.runs_folder(None) == tmp_path / "runs"
    assert again_at(tmp_path / "my runs") == f" --runs '{tmp_path}/my runs'"


def test_a_reason_is_said_once_for_all_commands_that_it_concerns(capsys: Any) -> None:
    verbs = [
        Readiness(verb=name, why=None if name == "export" else "is random") for name in ("a", "export", "b")
    ]
    tasks._print_verbs(tuple(verbs))
    assert capsys.readouterr().out.splitlines() == ["yes    export", "no     a, b: is random"]


def test_a_parameter_without_effect_is_told_of_in_a_sentence(capsys: Any) -> None:
    tasks._print_fitness([("mine", Fitness(insensitive=("norm_bias",)))])
    told = capsys.readouterr().out
    assert "the result is the same whatever norm_bias holds" in told and "no response" not in told


@pytest.fixture
def exported(monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulated world compiles nothing, so the text of an export is given."""
    made = sys.modules["kernelblaster.export.run"]
    monkeypatch.setattr(made, "export_run", lambda *_: "// t, optimized by KernelBlaster\n")


@pytest.mark.usefixtures("exported")
def test_an_export_that_is_not_faster_says_so(places: dict[str, Any], tmp_path: Path) -> None:
    kb.optimize(tmp_path / "task.py", budget=1, **places)
    root = ["--runs", str(places["runs"])]
    done = command("export", "last", "-o", str(tmp_path / "x.cu"), *root)
    assert "warning: this kernel was not found to be faster than b: Inconclusive, " in done.stderr
    assert "x modelled." in done.stderr
    assert (
        "not found to be faster" in json.loads(command("export", "last", "--json", *root).stdout)["warning"]
    )
    kb.optimize(tmp_path / "task.py", budget=20, **places)
    assert "warning" not in command("export", "last", *root).stderr


@pytest.mark.usefixtures("exported")
def test_an_export_neither_makes_folders_anywhere_nor_takes_a_files_place(
    places: dict[str, Any], tmp_path: Path
) -> None:
    for path in ("/nonexistent/x.cu", tmp_path / "a" / "b" / "x.cu", tmp_path):
        with pytest.raises(KernelBlasterError, match=r"there is no folder|is a folder"):
            export._check_output(Path(path), force=True)
    export._check_output(tmp_path / "new" / "x.cu", force=False)
    mine = tmp_path / "mine.cu"
    mine.write_text("__global__ void mine() {}\n")
    kb.optimize(tmp_path / "task.py", budget=1, **places)
    words = ["export", "last", "--runs", str(places["runs"]), "-o", str(mine)]
    refused = command(*words)
    assert "not an earlier export" in str(refused.exception) and "mine" in mine.read_text()
    assert command(*words, "--force").exit_code == 0 and "optimized by" in mine.read_text()
    assert command(*words).exit_code == 0
