"""Commands are confined before a task file runs: a task that wants out, through the command line."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kernelblaster.cli import confined
from kernelblaster.confinement.confine import lacking
from kernelblaster.errors import KernelBlasterError
from kernelblaster.settings import UNSAFE, settings
from kernelblaster.variables import KEEPER, TRUSTED

KEY = "sk-planted-0123456789"
TASK = """
import json, os, socket
from pathlib import Path
import torch
import beside

HOME = Path(os.environ["HOME"])


def outcome(attempt):
    try:
        return str(attempt())
    except BaseException as error:
        return f"{type(error).__name__}: {error}"


def keeper_writes():
    from kernelblaster import keeper
    keeper.claim("file", str(HOME / "by_keeper"))
    keeper.write(HOME / "by_keeper", "x", 0o666)


TRIED = {
    "data": outcome(lambda: Path(__file__).with_name("data.txt").read_text()),
    "key": outcome(lambda: (HOME / ".ssh").read_text()),
    "hidden": outcome(lambda: Path(__file__).with_name(".env").read_text()),
    "parent": outcome(lambda: Path(f"/proc/{os.getppid()}/environ").read_bytes()),
    "variables": [name for name in ("OPENAI_API_KEY", "PGPASSWORD", "MY_SETTING") if name in os.environ],
    "network": outcome(lambda: socket.socket()),
    "write": outcome(lambda: (HOME / ".bashrc").write_text("x")),
    "beside": outcome(lambda: Path(__file__).with_name("new").write_text("x")),
    "program": outcome(lambda: (Path(torch.__file__).parent / "new").write_text("x")),
    "keeper": outcome(keeper_writes),
}


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)


def get_inputs():
    return [torch.randn(16, 16)]


def get_init_inputs():
    return []


os.write(2, f"TRIED {json.dumps(TRIED)}\\n".encode())
"""


def test_a_task_that_wants_out_gets_nowhere(tmp_path: Path) -> None:
    if lacking():
        pytest.skip(lacking())
    home, project = tmp_path / "home", tmp_path / "home" / "project"
    project.mkdir(parents=True)
    (home / ".ssh").write_text(KEY)
    (project / ".env").write_text(KEY)
    (project / "data.txt").write_text("data")
    (project / "beside.py").write_text("")
    (project / "task.py").write_text(TASK)
    before = sorted(project.iterdir())
    environment = {name: os.environ[name] for name in ("PATH", "KERNELBLASTER_CACHE") if name in os.environ}
    secrets = {"OPENAI_API_KEY": KEY, "PGPASSWORD": KEY, "MY_SETTING": KEY}
    done = subprocess.run(
        [sys.executable, "-m", "kernelblaster", "tasks", "show", "task.py", "--json"],
        env={**environment, **secrets, "HOME": str(home), "PYTHONPATH": str(Path("src").absolute())},
        cwd=project,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0 and KEY not in done.stdout + done.stderr, done.stderr
    line = next(line for line in done.stderr.splitlines() if line.startswith("TRIED "))
    tried = json.loads(line.removeprefix("TRIED "))
    assert tried.pop("data") == "data" and tried.pop("variables") == []
    refused = {
        name for name, words in tried.items() if words.startswith(("PermissionError", "KernelBlaster"))
    }
    assert refused == tried.keys()
    assert sorted(project.iterdir()) == before and not (home / ".bashrc").exists()


@pytest.mark.parametrize("words", [["tasks", "check"], ["optimize"]])
def test_a_file_that_is_not_there_is_named_with_one_that_is(tmp_path: Path, words: list[str]) -> None:
    (tmp_path / "my_norm.py").write_text("")
    done = subprocess.run(
        [sys.executable, "-m", "kernelblaster", *words, "my_nrom.py"],
        env={**os.environ, "HOME": str(tmp_path), "PYTHONPATH": str(Path("src").absolute())},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2
    assert done.stderr == "error: my_nrom.py: no such task, file or folder. Did you mean my_norm.py?\n"


def test_a_bench_goes_on_without_tasks_that_are_gone(tmp_path: Path) -> None:
    (tmp_path / "here.py").write_text("")
    names = [str(tmp_path / "here.py"), str(tmp_path / "gone.py"), "core/level1/softmax"]
    assert confined.still_there(names) == [names[0], names[2]]


class Confined(Exception):
    """Raised instead of confining this process."""


@pytest.fixture
def without_landlock(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A command line on a system that cannot confine; the file of a task."""

    def stop(*_: object, partly: bool) -> None:
        raise Confined("partly" if partly else "wholly")

    monkeypatch.setenv(KEEPER, "-1")
    monkeypatch.setenv("KERNELBLASTER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(confined, "lacking", lambda: "no Landlock")
    monkeypatch.setattr(confined, "confine", stop)
    monkeypatch.setattr(confined, "mark_confined", lambda *_: None)
    for name in ("start", "seal"):
        monkeypatch.setattr(f"kernelblaster.keeper.{name}", lambda: None)
    (tmp_path / "task.py").write_text("")
    return tmp_path / "task.py"


def test_a_task_that_cannot_be_confined_is_not_run(without_landlock: Path) -> None:
    with pytest.raises(KernelBlasterError, match=r"no Landlock\. It is not run; where you trust"):
        confined.confine_command([str(without_landlock)])


def test_shipped_tasks_are_run_all_the_same(without_landlock: Path) -> None:
    with pytest.raises(Confined, match="partly"):
        confined.confine_command(["core/level1/softmax"])


def test_an_unsafe_one_is_run_with_what_can_be_had(
    without_landlock: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(UNSAFE, "1")
    with pytest.raises(Confined, match="partly"):
        confined.confine_command([str(without_landlock)])


def test_a_trusted_one_is_not_confined(without_landlock: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TRUSTED, "1")
    confined.confine_command([str(without_landlock)])


def test_results_do_not_go_into_a_folder_that_holds_more(
    without_landlock: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(without_landlock.parent))
    with pytest.raises(KernelBlasterError, match="not a folder to fill"):
        confined.confine_command(["core/level1/softmax"], fills=[without_landlock.parent])


def test_tasks_that_are_not_shipped_have_a_part_of_the_cache_to_themselves(
    without_landlock: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts: list[Path] = []
    monkeypatch.setattr(confined, "mark_confined", lambda part, _: parts.append(part))
    monkeypatch.setenv(UNSAFE, "1")
    other = without_landlock.with_name("other.py")
    other.write_text("")
    for task in (without_landlock, other, without_landlock, "core/level1/softmax"):
        with pytest.raises(Confined):
            confined.confine_command([str(task)])
    assert len({*parts}) == 3 and parts[0] == parts[2] and parts[3] == settings().cache


def test_what_is_cached_for_a_task_is_not_found_by_other_code_at_its_path(tmp_path: Path) -> None:
    folder, run = tmp_path / "project", tmp_path / "run"
    folder.mkdir()
    run.mkdir()
    task, beside = folder / "task.py", folder / "beside.py"
    for file in (task, beside, run / "task.py"):
        file.write_text("1")
    own = [str(task), str(run)]
    seen = [confined._digest(own)]
    for file in (task, beside, run / "task.py"):
        file.write_text("2")
        seen.append(confined._digest(own))
    assert len({*seen}) == 4
    (run / "best.cu").write_text("a result, not a task")
    (folder / "data.txt").write_text("no code")
    assert confined._digest(own) == seen[-1]
