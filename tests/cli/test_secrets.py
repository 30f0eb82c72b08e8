"""A password and a key are in nothing that is written or printed."""

import stat
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kernelblaster.cli.main import app
from kernelblaster.errors import KernelBlasterError
from kernelblaster.judge import compile
from kernelblaster.knowledge.address import opened
from kernelblaster.knowledge.knowledge_base import KnowledgeBase
from kernelblaster.passwords import shown
from kernelblaster.records import Candidate
from kernelblaster.sessions.settings import Search
from kernelblaster.store.files import write_whole
from kernelblaster.store.run import create_run, run_folders
from kernelblaster.store.subject import keep_task
from kernelblaster.tasks.catalog import load_task

PASSWORD = "hunter2"
TASK = "core/level1/relu"
URLS = {
    "plain": f"postgresql://me:{PASSWORD}@127.0.0.1:1/kb",
    "an @ in it": f"postgresql://me:{PASSWORD}@{PASSWORD}@127.0.0.1:1/kb",
    "a slash in it": f"postgresql://me:{PASSWORD}/{PASSWORD}@127.0.0.1:1/kb",
    "in the query": f"postgresql://127.0.0.1:1/kb?user=me&password={PASSWORD}&sslpassword={PASSWORD}",
    "a port that is none": f"postgresql://me:{PASSWORD}@127.0.0.1:port/kb",
    "a driver": f"postgresql+psycopg://me:{PASSWORD}@127.0.0.1:1/kb",
}


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Databases that are not there are waited for a second, not a minute."""
    monkeypatch.setenv("KERNELBLASTER_DATABASE_PATIENCE", "1")


@pytest.mark.parametrize("url", URLS.values(), ids=URLS)
def test_a_password_is_neither_shown_nor_in_an_error(url: str) -> None:
    assert PASSWORD not in shown(url) and "127.0.0.1" in shown(url)
    assert shown(shown(url)) == shown(url)
    with pytest.raises(KernelBlasterError) as caught:
        KnowledgeBase(url)
    assert PASSWORD not in str(caught.value)


def test_a_run_goes_on_with_the_password_given_again_or_with_none() -> None:
    url = URLS["plain"]
    assert opened(shown(url), url) == url
    assert opened(shown(url)) == "postgresql://me@127.0.0.1:1/kb"
    assert opened(shown(URLS["in the query"])) == "postgresql://127.0.0.1:1/kb?user=me"
    assert opened("/a/file.db") == "/a/file.db"
    with pytest.raises(KernelBlasterError, match="was begun with"):
        opened(shown(url), url.replace("/kb", "/other"))


def test_a_run_does_not_record_a_password(tmp_path: Path) -> None:
    def command(*words: str) -> str:
        done = CliRunner().invoke(app, [*words, "--runs", str(tmp_path)])
        return f"{done.output}{done.stderr}{done.exception!r}"

    options = ("--device", "emulated", "--kb", URLS["plain"])
    said = command("optimize", TASK, *options) + command("optimize", TASK, *options, "--json")
    assert not list(run_folders(tmp_path))  # they never began
    about = {"task": TASK, "dtype": "float32", "device": "emulated", "gpu": None, "kb": shown(URLS["plain"])}
    for _ in range(2):
        with create_run(tmp_path, **about, search=Search().model_dump()) as run:
            keep_task(run, load_task(TASK))
    one, other = (folder.name for folder in run_folders(tmp_path))
    for json_ in ((), ("--json",)):
        said += command("runs", "show", one, *json_) + command("runs", "list", *json_)
        said += command("runs", "diff", one, other, *json_) + command("resume", one, *json_)
    written = [path.read_text() for path in tmp_path.rglob("*") if path.is_file()]
    assert PASSWORD not in said and not [text for text in written if PASSWORD in text]
    assert "postgresql://me:***@127.0.0.1:1/kb" in said
    assert "give --kb URL again" in command("resume", one)


def test_only_the_owner_looks_into_a_run_and_exports_are_for_others(tmp_path: Path) -> None:
    with create_run(tmp_path / "runs", task="t") as run:
        run.files.put("text")
    modes = {stat.S_IMODE(path.stat().st_mode) for path in (run.folder, run.folder / "events.jsonl")}
    assert modes == {0o700, 0o600}
    (tmp_path / "plain").touch()
    write_whole(tmp_path / "kernel.cu", "text", mode=0o666)
    assert (tmp_path / "kernel.cu").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_a_compiler_is_told_no_secrets(
    compiler: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted-0123456789")
    monkeypatch.setenv("SOMETHING_ELSE", "private")
    given: list[dict[str, str]] = []

    def compiler(*_: object, environment: dict[str, str], **__: object) -> tuple[int, str]:
        given.append(environment)
        return 1, "error: nothing is compiled here"

    monkeypatch.setattr(compile, "run_leashed", compiler)
    source = f"// {tmp_path}\n// launch_gpu_implementation\n"
    assert (
        compile.compile_candidate(load_task(TASK), Candidate(source=source), "sm_90a").kind == "CompileFailed"
    )
    assert "PATH" in given[0] and not {"OPENAI_API_KEY", "SOMETHING_ELSE"} & given[0].keys()
