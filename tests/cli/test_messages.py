"""What a person reads: nothing that is to be copied is broken, reasons are said once, mistakes are named."""

import errno
import json
import sys
from pathlib import Path
from typing import Any

import pytest

import kernelblaster as kb
from kernelblaster.cli import export, main, options, runs, tasks
from kernelblaster.cli.options import again_at
from kernelblaster.errors import BadTask, KernelBlasterError
from kernelblaster.export.seal import seal
from kernelblaster.knowledge.knowledge_base import KnowledgeBase
from kernelblaster.knowledge.seed import plant
from kernelblaster.readiness import Readiness
from kernelblaster.records import Fitness
from kernelblaster.shortage import shortage
from kernelblaster.store.run import open_run
from kernelblaster.tasks import catalog
from tests.api.test_api import places
from tests.cli.test_front_door import command, whole_command

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


@pytest.mark.parametrize("words", [(), ("runs",), ("kb",), ("tasks",), ("fleet",)])
def test_no_line_in_a_list_of_commands_is_cut(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    told = command(*words, "--help").stdout
    listed = told.partition("Commands:")[2]
    assert len(listed.splitlines()) > 3 and "..." not in listed
    assert all(len(line) <= 80 for line in told.splitlines() if "/" not in line)


@pytest.fixture
def exported(monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulated world compiles nothing, so the text of an export is given."""
    made = sys.modules["kernelblaster.export.run"]
    text = "// t, optimized by KernelBlaster\nint x;\n"
    monkeypatch.setattr(made, "export_run", lambda _, form="cu": seal(text, form))


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
    faster = kb.optimize(tmp_path / "task.py", budget=20, **places).run
    assert "warning" not in command("export", str(faster), *root).stderr


@pytest.mark.usefixtures("exported")
def test_an_export_neither_makes_folders_anywhere_nor_takes_a_files_place(
    places: dict[str, Any], tmp_path: Path
) -> None:
    for path in ("/nonexistent/x.cu", tmp_path / "a" / "b" / "x.cu", tmp_path):
        with pytest.raises(KernelBlasterError, match=r"there is no folder|is a folder"):
            export._check_output(Path(path), "cu", force=True)
    export._check_output(tmp_path / "new" / "x.cu", "cu", force=False)
    mine = tmp_path / "mine.cu"
    mine.write_text("__global__ void mine() {}\n")
    kb.optimize(tmp_path / "task.py", budget=1, **places)
    words = ["export", "last", "--runs", str(places["runs"]), "-o", str(mine)]
    refused = command(*words)
    assert "not an earlier export" in str(refused.exception) and "mine" in mine.read_text()
    assert command(*words, "--force").exit_code == 0 and "optimized by" in mine.read_text()
    assert command(*words).exit_code == 0


@pytest.mark.usefixtures("exported")
def test_an_export_that_was_edited_or_has_another_format_is_kept(
    places: dict[str, Any], tmp_path: Path
) -> None:
    kb.optimize(tmp_path / "task.py", budget=1, **places)
    file = tmp_path / "it.cu"
    words = ["export", "last", "--runs", str(places["runs"]), "-o", str(file)]
    assert command(*words).exit_code == command(*words).exit_code == 0
    other = command(*words, "--format", "module")
    assert "an export of another format (cu)" in str(other.exception)
    written = file.read_text()
    for edited in (written.replace("int x", "int y"), written + "\n"):
        file.write_text(edited)
        assert "was edited since" in str(command(*words).exception) and file.read_text() == edited
    assert command(*words, "--force").exit_code == 0 and file.read_text() == written


def test_a_run_that_has_ended_says_so_and_how_to_go_on(places: dict[str, Any], tmp_path: Path) -> None:
    found = kb.optimize(tmp_path / "task.py", budget=3, **places)
    root = ["--runs", str(places["runs"])]
    told = command("resume", "last", *root)
    assert told.exit_code == (found.verdict != "Accepted")
    assert f"run {found.run.name} has ended: 3 candidates judged" in told.stdout
    assert f"kernelblaster resume {found.run.name} --runs {places['runs']} --budget 6" in told.stdout
    refused = command("resume", "last", "--budget", "3", *root)
    assert "3 candidates are judged already" in str(refused.exception)
    assert command("resume", "last", "--budget", "6", *root).exit_code in (0, 1)
    with open_run(places["runs"], "last") as run:
        assert sum(event.kind == "evaluation" for event in run.events) > 3


def test_steering_that_comes_to_nothing_is_told_of(places: dict[str, Any], tmp_path: Path) -> None:
    kb.optimize(tmp_path / "task.py", budget=2, **places)
    words = ["runs", "steer", "last", "--runs", str(places["runs"])]
    told = command(*words, "--pin", "vectorised_memory_access", "--forbid", "launch_bounds").stderr
    assert "as vectorised_memory_access; did you mean vectorized_memory_access" in told
    assert "launch_bounds" not in told and "the run has ended, and obeys once it goes on" in told
    bad = command(*words, "--note", " ")
    assert "Value error" not in str(bad.exception)


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["optimize", ""], "the name of the task is empty"),
        (["tasks", "check", "swigllu.py"], "Did you mean swiglu.py?"),
        (["kb", "show", "memory-bandwith"], "did you mean memory-bandwidth"),
        (["kb", "show", "zzz"], "`kernelblaster kb show` lists all"),
        (["report", "last"], "there is no run in"),
        (["optimize", "core/level1/softmax", "--gpu", "h300"], "GPU h300 is not one of h200"),
        (["evaluate", "core/level1/softmax", "none.cu"], "none.cu: there is no such file."),
        (["profile", "core/level1/softmax", "."], ".: is a folder."),
        (["optimize", "swiglu.py", "--dtype", "int8"], "int8 is none of float32, float16, bfloat16"),
    ],
)
def test_a_mistake_is_named(
    words: list[str], part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KERNELBLASTER_DATA", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(catalog, "load_file", lambda *_, **__: pytest.fail("something slow was begun"))
    Path("swiglu.py").touch()
    if words[0] == "kb":
        with KnowledgeBase(tmp_path / "data" / "knowledge.db") as knowledge:
            plant(knowledge)
    done = command(*words)
    assert part in f"{done.exception} {done.stderr}" and done.exit_code


def test_an_unfit_file_is_told_of_without_an_empty_bar(tmp_path: Path) -> None:
    (tmp_path / "task.py").write_text("class Model(")
    done = command("tasks", "check", str(tmp_path / "task.py"))
    assert "syntax error" in done.stdout and done.stderr == ""
    done = command("tasks", "check", "torch.nn:Sequential")
    assert done.stdout.startswith("unfit  torch.nn:Sequential: has no get_inputs(), and Sequential.forward")


def test_types_may_be_named_shortly() -> None:
    assert options._dtype("bf16") == "bfloat16" and options._dtype("FP16") == "float16"
    assert "[float32|float16|bfloat16]" in command("optimize", "--help").stdout


def test_a_new_user_has_no_knowledge_base_yet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNELBLASTER_DATA", str(tmp_path))
    done = command("kb", "stats")
    assert done.exit_code == 0 and f"no knowledge base in {tmp_path}" in done.stdout


def test_what_cannot_be_read_is_not_called_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog.os, "access", lambda *_: False)
    with pytest.raises(BadTask, match="this folder cannot be read"):
        catalog.find(str(tmp_path))
    denied = PermissionError(errno.EACCES, "Permission denied", "x.py")
    monkeypatch.setattr(catalog, "read_bounded", lambda *_: (_ for _ in ()).throw(denied))
    with pytest.raises(BadTask) as told:
        catalog.load_file("x", tmp_path / "x.py")
    assert str(told.value) == f"{tmp_path / 'x.py'}: cannot be read: Permission denied."
    assert shortage(denied) == "x.py: permission is denied. Change its permissions, or name another."


TAKES_TWO = """import torch
class Model(torch.nn.Module):
    def forward(self, x, y):
        return x + y
"""


def test_inputs_that_do_not_fit_are_those_of_the_option(tmp_path: Path) -> None:
    (tmp_path / "two.py").write_text(TAKES_TWO)
    with pytest.raises(BadTask) as told:
        catalog.load_task(str(tmp_path / "two.py"), inputs="randn(8, 4)")
    assert "--inputs must give a value for each" in str(told.value) and "get_inputs()" not in str(told.value)
    with pytest.raises(BadTask) as told:
        catalog.load_task(str(tmp_path / "two.py"), inputs="x=randn(8, 4), z=randn(8, 4)")
    assert "two.py: forward() failed" in str(told.value)


@pytest.mark.parametrize("error", [ZeroDivisionError("nothing to divide by"), RuntimeError("unforeseen")])
def test_a_mistake_of_the_program_has_a_code_of_its_own(
    error: Exception, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """1 would say that a candidate is right and not faster."""

    def fails(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(main, "app", fails)
    code, out, err = whole_command(capsys, monkeypatch, "tasks", "list", "--json")
    assert code == main.CRASHED == 70
    assert json.loads(out) == {"error": f"{type(error).__name__}: {error}"}
    assert "Traceback" in err and err.rstrip().endswith("please report it with the lines above.")
