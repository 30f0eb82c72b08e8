"""What a person meets first: quick commands, names that are understood, numbers that say what they are."""

import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import kernelblaster as kb
from kernelblaster import opening
from kernelblaster.api import benching
from kernelblaster.bench.jobs import JobResult, Measured
from kernelblaster.bench.record import Row
from kernelblaster.cli import main, progress
from kernelblaster.cli.main import VERBS, app, load_command
from kernelblaster.cli.optimize import _exit_code
from kernelblaster.cli.start import STOPPED
from kernelblaster.devices.specs import gpu_named, gpu_specs
from kernelblaster.errors import KernelBlasterError
from kernelblaster.knowledge.knowledge_base import KnowledgeBase
from kernelblaster.knowledge.seed import plant
from kernelblaster.quantities import speedup_text, time_text
from kernelblaster.records.outcome import Accepted, Slower, Speedup
from tests.api.test_api import places
from tests.cli.test_commands import ROOT

__all__ = ["places"]
LIGHT = """
import sys
from kernelblaster.cli.main import main
most = "torch sqlalchemy pydantic rich numpy"
heavy = {"--help": most, "--version": most,
         "tasks list": "torch sqlalchemy", "runs list": "torch sqlalchemy", "kb stats": "torch numpy",
         "kb --help": "torch", "optimize --help": "torch", "bench --help": "torch"}
for words, names in heavy.items():
    sys.argv = ["kernelblaster", *words.split()]
    try:
        main()
    except SystemExit:
        pass
    for name in names.split():
        assert name not in sys.modules, f"{words} imports {name}"
"""


def command(*words: str) -> Any:
    return CliRunner().invoke(app, list(words))


def whole_command(capsys: Any, monkeypatch: pytest.MonkeyPatch, *words: str) -> tuple[int, str, str]:
    """As from a shell: exit code, standard output, standard error."""
    monkeypatch.setattr(sys, "argv", ["kernelblaster", *words])
    with pytest.raises(SystemExit) as ended:
        main.main()
    said = capsys.readouterr()
    return int(str(ended.value.code)), said.out, said.err


def test_commands_that_need_no_torch_do_not_import_it(tmp_path: Path) -> None:
    environment = {"PYTHONPATH": str(ROOT / "src"), "HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    done = subprocess.run([sys.executable, "-c", LIGHT], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", VERBS)
def test_the_list_of_commands_says_what_the_commands_say(name: str) -> None:
    found = load_command(name)
    assert " ".join(found.help.split("\n\n")[0].split()) == VERBS[name].line


def test_the_version_and_completion_are_offered(capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert whole_command(capsys, monkeypatch, "--version")[:2] == (0, f"kernelblaster {kb.__version__}\n")
    shown = command("--help").stdout
    assert "--install-completion" in shown and str(main.docs_folder()) in "".join(shown.split())
    assert main.docs_folder().is_dir()


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["runs", "show", "nothing"], "there is no run nothing"),
        (["tasks", "show", "core/level1/nothing"], "no such task"),
        (["runs", "show"], "Missing argument"),
        (
            ["bench", "core/level1/softmax", "--folder", "/proc/nowhere", "--device", "emulated"],
            "cannot make",
        ),
    ],
)
def test_with_json_an_error_is_an_object(
    words: list[str], part: str, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out, err = whole_command(capsys, monkeypatch, *words, "--json")
    assert code == 2 and part.lower() in json.loads(out)["error"].lower()
    assert part.lower() in " ".join(err.lower().split()) and "Traceback" not in err


def test_ctrl_c_has_its_exit_code(capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("kernelblaster.cli.runs.run_folders", stop)
    kept: list[Any] = []
    monkeypatch.setattr(main.atexit, "register", lambda *call: kept.append(call))
    code, _, words = whole_command(capsys, monkeypatch, "runs", "list")
    assert code == 130 and words == "stopped.\n"
    assert (signal.signal, signal.SIGINT, signal.SIG_IGN) in kept  # a second one, while it tidies up


def test_a_gpu_is_named_in_any_case() -> None:
    assert gpu_named("H100").name == "h100" and benching.gpu_key("RTX4090") == "rtx4090"
    assert opening.kind_here("auto", "H100") == "emulated"
    with pytest.raises(KernelBlasterError, match=", ".join(gpu_specs())):
        opening.kind_here("auto", "voodoo")
    shown = command("optimize", "--help").stdout
    assert all(name in shown for name in gpu_specs())


def test_the_exit_code_tells_whether_something_faster_was_found(
    places: dict[str, Any], tmp_path: Path
) -> None:
    words = ["optimize", str(tmp_path / "task.py"), "--kb", str(tmp_path / "kb.db"), "--budget", "1"]
    nothing = command(*words, "--runs", str(places["runs"]), "--json")
    told = json.loads(nothing.stdout)
    assert told["verdict"] == "Inconclusive" and told["modelled"] and nothing.exit_code == 1
    speedup = Speedup(estimate=2.0, low=1.9, high=2.1, confidence=0.99)
    assert _exit_code(Accepted(speedup=speedup), None) == 0
    assert _exit_code(Accepted(speedup=speedup), 2.5) == 1
    assert _exit_code(Slower(speedup=speedup), None) == 1 and _exit_code(Slower(speedup=speedup), 1.5) == 0
    assert _exit_code(Accepted(speedup=speedup), None, by_person=True) == STOPPED


def test_a_run_is_named_in_any_way_and_what_is_modelled_is_marked(
    places: dict[str, Any], tmp_path: Path
) -> None:
    found = kb.optimize(tmp_path / "task.py", budget=6, **places)
    root = ["--runs", str(places["runs"])]
    for name in ("last", found.run.name, found.run.name[:17], str(found.run)):
        shown = command("runs", "show", name, *root)
        assert shown.exit_code == 0 and "us modelled" in shown.stdout
    assert "x modelled" in command("runs", "list", *root).stdout
    assert json.loads(command("runs", "list", "--json", *root).stdout)[0]["modelled"] is True
    compared = command("runs", "diff", "last", str(found.run), *root).stdout
    assert "x modelled" in compared
    assert command("report", "last", "--output", str(tmp_path / "page.html"), *root).exit_code == 0
    assert "times modelled, not measured" in (tmp_path / "page.html").read_text()
    assert "| modelled |" in (found.run / "trajectory.md").read_text()


def test_speedups_and_times_say_where_they_come_from() -> None:
    assert speedup_text(0.94, modelled=True) == "0.94x modelled" and speedup_text(1.5, False) == "1.50x"
    assert time_text(12.34, modelled=True) == "12.3 us modelled" and time_text(None, True) == ""


def test_a_bench_does_not_call_measured_what_was_modelled(capsys: Any) -> None:
    speedup = Speedup(estimate=0.94, low=0.8, high=1.1, confidence=None)
    one = Measured(job="bench/t/0", baseline="eager", outcome="Inconclusive", speedup=speedup)
    progress.BenchLines(1, 0).measured(one)
    progress.BenchLines(1, 0).measured(
        one.model_copy(update={"speedup": speedup.model_copy(update={"confidence": 0.99})})
    )
    modelled, measured = capsys.readouterr().out.splitlines()
    assert modelled.startswith("modelled") and "0.94x modelled" in modelled and "measured" not in modelled
    assert measured.startswith("measured") and "modelled" not in measured


def test_only_what_was_accepted_counts_as_faster_on_a_page() -> None:
    result = JobResult(job="j", arm="a", task="t", group="g", seed=0, status="valid")
    speedup = Speedup(estimate=1.02, low=0.9, high=1.1, confidence=None)
    unsure = Measured(job="j", baseline="eager", outcome="Inconclusive", speedup=speedup)
    assert not Row(result, {"eager": unsure}).faster("eager")
    sure = unsure.model_copy(update={"outcome": "Accepted"})
    assert Row(result, {"eager": sure}).faster("eager") and Row(result, {"eager": sure}).faster("best")
    assert not Row(result.model_copy(update={"status": "invalid"}), {"eager": sure}).faster("eager")


def test_the_own_knowledge_base_is_the_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNELBLASTER_DATA", str(tmp_path))
    with KnowledgeBase(tmp_path / "knowledge.db") as knowledge:
        plant(knowledge)
    for words in (["stats"], ["log"], ["check"], ["show"]):
        done = command("kb", *words, "--json")
        assert done.exit_code == 0 and json.loads(done.stdout)


def test_a_bench_teaches_the_knowledge_base_that_it_is_to_teach(tmp_path: Path) -> None:
    shared = tmp_path / "shared.db"
    with KnowledgeBase(benching.bench_knowledge(tmp_path / "bench")) as own, KnowledgeBase(shared):
        plant(own)
    learned = benching.teach_from(tmp_path / "bench", str(shared))
    with KnowledgeBase(shared) as knowledge:
        assert learned == knowledge.version > 0
    assert benching.teach_from(tmp_path / "bench", str(shared)) == 0
    with pytest.raises(KernelBlasterError, match="name it with --kb"):
        benching.check_teaching("seed", teach=True)


def test_messages_cite_docs_that_are_there() -> None:
    texts = [path.read_text() for path in (ROOT / "src" / "kernelblaster").rglob("*.py")]
    cited = {name for text in texts for name in re.findall(r"docs/([a-z-]+\.md)", text)}
    assert cited and not [name for name in cited if not (ROOT / "docs" / name).is_file()]
    assert 'docs = "kernelblaster/docs"' in (ROOT / "pyproject.toml").read_text()
