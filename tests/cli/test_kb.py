"""`kernelblaster kb` as a new user would try it."""

import json
import os
import subprocess
import sys
from math import log
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from kernelblaster.cli.main import app
from kernelblaster.errors import KernelBlasterError
from kernelblaster.knowledge import KnowledgeBase, Provenance

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Databases that are not there are waited for a second, not a minute."""
    monkeypatch.setenv("KERNELBLASTER_DATABASE_PATIENCE", "1")


def run(*words: str) -> Result:
    done = CliRunner().invoke(app, ["kb", *words])
    if isinstance(done.exception, KernelBlasterError):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done


@pytest.fixture
def path(tmp_path: Path) -> str:
    path = str(tmp_path / "kb.db")
    run("import", "seed", "--kb", path)
    with KnowledgeBase(path) as kb:
        where = Provenance(run="r7", architecture="sm_90a", family="matmul")
        for _ in range(3):
            kb.observe("fp32-pipe", "tensor_core_utilization", 0.9, where, before=("shared_memory_tiling",))
        kb.observe("fp32-pipe", "tensor_core_utilization", "Incorrect", where)
        kb.note("fp32-pipe", "TF32 is refused where eager is exact", "tensor_core_utilization")
    return path


def test_show(path: str) -> None:
    states = json.loads(run("show", "--kb", path, "--json").stdout)
    assert len(states) >= 16
    words = ("show", "fp32-pipe", "--architecture", "sm_90a", "--after", "shared_memory_tiling", "--kb", path)
    shown = json.loads(run(*words, "--json").stdout)
    tried = {entry["technique"]: entry for entry in shown[:3]}  # others promise as much untried
    assert tried["tensor_core_utilization"]["weight"] == 4
    assert "TF32 is refused" in run(*words).stdout
    assert "fp32-pipe" in run("show", "--kb", path).stdout


def test_search(path: str) -> None:
    found = json.loads(run("search", "tensor refused", "--kb", path, "--json").stdout)
    assert [entry["technique"] for entry in found] == ["tensor_core_utilization"]
    assert "0 optimizations" in run("search", "no such words", "--kb", path).stdout


def test_stats(path: str) -> None:
    stats = json.loads(run("stats", "--kb", path, "--json").stdout)
    assert stats["attempts"] == 4 and stats["evidence"] == {"sm_90a": 4.0}
    assert stats["failures"] == {"Incorrect": 1.0}
    assert stats["payoffs"][0]["after"] == "shared_memory_tiling"
    assert "shared_memory_tiling -> tensor_core_utilization: 2.46x" in run("stats", "--kb", path).stdout


def test_stats_show_what_pays_after_what(path: str) -> None:
    with KnowledgeBase(path) as kb:
        for _ in range(2):
            kb.observe(
                "fp32-pipe", "tensor_core_utilization", log(0.78), Provenance(), before=("register_tiling",)
            )
    assert len(json.loads(run("stats", "--kb", path, "--json").stdout)["payoffs"]) == 2
    shown = run("stats", "--kb", path).stdout
    assert "register_tiling ->" not in shown and "attempts       6 (" in shown


def test_log_diff_and_rollback(path: str) -> None:
    log = json.loads(run("log", "--kb", path, "--last", "2", "--json").stdout)
    assert [event["change"]["kind"] for event in log] == ["observed", "noted"]
    latest = log[-1]["version"]
    before = str(latest - 5)
    assert "run=r7" in run("log", "--kb", path).stdout
    assert "(4 attempts)" in run("diff", before, "--kb", path).stdout
    assert "no difference" in run("diff", before, before, "--kb", path).stdout
    restored = json.loads(run("rollback", before, "--kb", path, "--json").stdout)
    assert restored == {"restored": latest - 5, "version": latest + 1}
    assert json.loads(run("diff", before, "--kb", path, "--json").stdout)["techniques"] == []
    assert f"kb rollback {latest + 1}" in run("rollback", str(latest), "--kb", path).stdout


def test_export_import_and_merge(path: str, tmp_path: Path) -> None:
    document, other = tmp_path / "kb.json", str(tmp_path / "other.db")
    run("export", "--kb", path, "--out", str(document), "--max-bytes", "50000")
    assert document.stat().st_size <= 50_001
    run("export", "--kb", path, "--out", str(document))
    assert json.loads(run("import", str(document), "--kb", other, "--json").stdout)["new_events"] > 60
    assert "0 new events" in run("import", str(document), "--kb", other).stdout
    assert json.loads(run("export", "--kb", other).stdout) == json.loads(document.read_text())
    third = str(tmp_path / "third.db")
    assert json.loads(run("merge", path, "--kb", third, "--json").stdout)["new_events"] > 60
    assert "0 new events" in run("merge", path, "--kb", third).stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["show", "hunger", "--kb", "{kb}"], "has no such state"),
        (["diff", "1", "999", "--kb", "{kb}"], "no version 999"),
        (["rollback", "999", "--kb", "{kb}"], "no version 999"),
        (["stats", "--kb", "nowhere.db"], "there is no such knowledge base"),
        (["merge", "nowhere.db", "--kb", "{kb}"], "there is no such knowledge base"),
        (["import", "nowhere.json", "--kb", "{kb}"], "there is no such file"),
        (["import", "README.md", "--kb", "{kb}"], "is not JSON"),
        (["stats", "--kb", "README.md"], "not a knowledge base"),
        (["stats", "--kb", "postgresql://kb:secret@127.0.0.1:1/kb"], "connection to the database failed"),
        (["export", "--kb", "{kb}", "--out", "/proc/nowhere/kb.json"], "cannot be written"),
    ],
)
def test_bad_input_gets_a_sentence(
    path: str, words: list[str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if any("postgresql" in word for word in words):
        pytest.importorskip("psycopg")
    monkeypatch.chdir(ROOT)
    with pytest.raises(KernelBlasterError) as caught:
        run(*[word.replace("{kb}", path) for word in words])
    assert message in str(caught.value) and "secret" not in str(caught.value)


def test_the_command_says_it_on_one_line(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "kernelblaster", "kb", "stats", "--kb", str(tmp_path / "none.db")],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )
    assert done.returncode == 2
    assert done.stderr.startswith("error:") and len(done.stderr.splitlines()) == 1
