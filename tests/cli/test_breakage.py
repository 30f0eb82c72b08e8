"""What happens to a run when something breaks in the middle of it: a sentence that helps, nothing lost, and
after `resume` the same result as if nothing had happened. The searches are those of a simulated world."""

import json
import os
import random
import resource
import shutil
import sqlite3
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from kernelblaster import opening
from kernelblaster.cli.main import app
from kernelblaster.errors import DeviceLost, KnowledgeError, NoDevice, StoreError
from kernelblaster.knowledge import tables
from kernelblaster.knowledge.knowledge_base import KnowledgeBase
from kernelblaster.records import Candidate, Evaluation, Task
from kernelblaster.store.run import LOG
from kernelblaster.testing.postgres_server import PostgresServer
from tests.test_optimize import World, WorldJudge

TASK = """import torch, torch.nn as nn
n = 4096
class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x)
def get_inputs():
    return [torch.randn(n)]
def get_init_inputs():
    return []
"""
Trouble = Callable[[], None]


class Breaking(WorldJudge):
    """The judge of the simulated world, with trouble before its n-th evaluation."""

    def __init__(self, trouble: dict[int, Trouble], name: str) -> None:
        super().__init__()
        self.trouble = trouble
        self.device.name = name

    def evaluate_many(self, jobs: Sequence[tuple[Task, Candidate]]) -> Iterator[Evaluation]:
        for job in jobs:
            if len(self.judged) in self.trouble:
                self.trouble.pop(len(self.judged))()
            yield from super().evaluate_many([job])


class Here:
    """A folder with runs and a knowledge base, and commands that work in it. The task is beside it, so that
    it has the same name for all."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, kb: str = "") -> None:
        self.folder = folder
        self.task = folder.parent / "task.py"
        self.kb = kb or str(folder / "kb.db")
        self.trouble: list[dict[int, Trouble]] = []
        self.device = "a device"
        folder.mkdir(exist_ok=True)
        self.task.write_text(TASK)
        monkeypatch.setattr(sys.modules["kernelblaster.optimize"], "ExpertPolicy", lambda *_: World())

    @contextmanager
    def open_searching(self, *_: Any, **__: Any) -> Iterator[Breaking]:
        yield Breaking(self.trouble.pop(0) if self.trouble else {}, self.device)

    def command(self, *words: str) -> Any:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(opening, "open_searching", self.open_searching)
            return CliRunner().invoke(app, [*words, "--runs", str(self.folder / "runs")])

    def optimize(self) -> Any:
        words = ["--kb", self.kb, "--seed", "3", "--budget", "25", "--iterations", "4"]
        return self.command("optimize", str(self.task), *words)

    def resume(self) -> Any:
        return self.command("resume", self.run.name)

    @property
    def run(self) -> Path:
        return next((self.folder / "runs").iterdir())

    def result(self) -> tuple[str, Any, Any]:
        """Everything that must not depend on what happened in between."""
        way = json.loads((self.run / "trajectory.json").read_text())
        with KnowledgeBase(self.kb) as knowledge:
            entries = knowledge.content().entries
        return (self.run / "best.cu").read_text(), way, entries


@pytest.fixture
def whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, Any, Any]:
    """The result of a run that nothing happened to."""
    undisturbed = Here(tmp_path / "whole", monkeypatch)
    done = undisturbed.optimize()
    assert done.exit_code == 0, done.output
    return undisturbed.result()


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Here:
    return Here(tmp_path / "here", monkeypatch)


def said(done: Any, kind: type[Exception]) -> str:
    assert isinstance(done.exception, kind), done.output
    return str(done.exception)


def lost() -> None:
    raise DeviceLost("the GPU failed: CUDA error: unspecified launch failure.")


def test_a_device_that_is_lost_once_is_started_again(here: Here, whole: Any) -> None:
    here.trouble = [{4: lost}]
    done = here.optimize()
    assert done.exit_code == 0 and "it is started again" in done.output
    assert here.result() == whole


def test_a_device_that_is_lost_twice_ends_the_command_with_the_way_to_go_on(here: Here, whole: Any) -> None:
    here.trouble = [{4: lost}, {3: lost}]
    text = said(here.optimize(), DeviceLost)
    assert "lost again after a restart" in text
    assert f"kernelblaster resume {here.run.name} --runs {here.folder / 'runs'}" in text
    assert here.resume().exit_code == 0
    assert here.result() == whole


def test_a_run_does_not_go_on_on_another_device(here: Here) -> None:
    here.trouble = [{2: lost}, {2: lost}]
    said(here.optimize(), DeviceLost)
    here.device = "another device"
    assert "was begun on a device; this is another device" in said(here.resume(), NoDevice)


def test_ctrl_c_says_how_to_go_on(here: Here, whole: Any) -> None:
    def stop() -> None:
        raise KeyboardInterrupt

    here.trouble = [{5: stop}]
    done = here.optimize()
    assert done.exit_code == 130 and f"kernelblaster resume {here.run.name}" in done.output
    assert here.resume().exit_code == 0
    assert here.result() == whole


@pytest.mark.parametrize("where", [LOG, "files"])
def test_a_full_disk_under_the_run(
    here: Here, whole: Any, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync = os.fsync

    def full(file: int) -> None:
        if where in str(Path(f"/proc/self/fd/{file}").readlink()):
            raise OSError(28, "No space left on device")
        sync(file)

    here.trouble = [{4: lambda: monkeypatch.setattr(os, "fsync", full)}]
    text = said(here.optimize(), StoreError)
    assert "No space left on device. What was recorded before is safe." in text and "resume" in text
    monkeypatch.setattr(os, "fsync", sync)
    assert here.resume().exit_code == 0
    assert here.result() == whole


def test_a_full_disk_under_the_knowledge_base(here: Here, whole: Any) -> None:
    unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)

    def full() -> None:
        written = Path(f"{here.kb}-wal").stat().st_size
        assert (here.run / LOG).stat().st_size < written / 2
        resource.setrlimit(resource.RLIMIT_FSIZE, (written, unlimited[1]))

    here.trouble = [{4: full}]
    try:
        text = said(here.optimize(), KnowledgeError)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)
    assert "the disk is full or failing; what was recorded before is safe" in text and "resume" in text
    assert here.resume().exit_code == 0
    assert here.result() == whole


def test_a_knowledge_base_that_another_process_holds(
    here: Here, whole: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "BUSY_MS", 50)
    holder: list[sqlite3.Connection] = []

    def hold() -> None:
        holder.append(sqlite3.connect(here.kb, isolation_level=None))
        holder[0].execute("BEGIN IMMEDIATE")

    here.trouble = [{4: hold}]
    text = said(here.optimize(), KnowledgeError)
    assert "is held by another process for too long" in text and "resume" in text
    holder[0].close()
    assert here.resume().exit_code == 0
    assert here.result() == whole


def test_a_database_server_that_goes_away(
    tmp_path: Path, whole: Any, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = Here(tmp_path / "here", monkeypatch, kb=postgres.database())
    here.trouble = [{4: postgres.stop}]
    try:
        text = said(here.optimize(), KnowledgeError)
    finally:
        postgres.start()
    assert "the connection to the database failed or was lost" in text and "resume" in text
    assert "secret" not in text
    assert here.resume().exit_code == 0
    assert here.result() == whole


def cut(data: bytes) -> bytes:
    return data[: len(data) // 2]


def garbled(data: bytes) -> bytes:
    middle = len(data) // 3
    return data[:middle] + random.Random(1).randbytes(middle) + data[2 * middle :]


def foreign(data: bytes) -> bytes:
    return b"not a database at all " * 200


@pytest.mark.parametrize("damage", [cut, garbled, foreign])
def test_a_damaged_knowledge_base_is_said_and_left_as_it_is(
    here: Here, whole: Any, damage: Callable[[bytes], bytes]
) -> None:
    assert here.optimize().exit_code == 0
    with sqlite3.connect(here.kb) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    database.close()
    file = Path(here.kb)
    good = file.read_bytes()
    file.write_bytes(damage(good))
    found = said(here.optimize(), KnowledgeError)
    assert "damaged" in found and "restore a copy" in found
    assert file.read_bytes() == damage(good)
    assert "resume" not in found and len(list((here.folder / "runs").iterdir())) == 1  # nothing was begun
    file.write_bytes(good)
    assert here.optimize().exit_code == 0


def test_a_run_that_was_copied_teaches_once(here: Here, whole: Any) -> None:
    here.trouble = [{8: lost}, {8: lost}]
    said(here.optimize(), DeviceLost)
    first = here.run
    assert here.command("resume", first.name).exit_code == 0
    shutil.copytree(first, first.parent / "copy")  # when all is learned
    assert here.command("resume", "copy").exit_code == 0
    shutil.rmtree(first.parent / "copy")
    assert here.result() == whole


def test_a_database_of_something_else_is_refused_and_left_as_it_is(here: Here) -> None:
    with sqlite3.connect(here.kb) as database:
        database.execute("CREATE TABLE songs (title TEXT)")
    database.close()
    before = Path(here.kb).read_bytes()
    assert "is a database of something else (songs)" in said(here.optimize(), KnowledgeError)
    assert Path(here.kb).read_bytes() == before
