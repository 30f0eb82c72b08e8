"""Commands to a search lie in a file that anybody may append to, and whoever reads it is not disturbed."""

import fcntl
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pydantic import ValidationError

from kernelblaster.errors import StoreError
from kernelblaster.store.run import STEERING, create_run, discard_unbegun, open_run
from kernelblaster.store.steering import (
    LONGEST_NOTE,
    ForbidTechnique,
    LeaveNote,
    PinTechnique,
    SetBudget,
    StopSearch,
    append_command,
    describe_action,
    read_commands,
)
from kernelblaster.store.writer import lock_holders, writer_of


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with create_run(tmp_path, task="t") as run:
        return run.folder


def test_commands_are_read_in_the_order_of_appending(folder: Path) -> None:
    asked = [
        StopSearch(),
        SetBudget(evaluations=40),
        PinTechnique(technique="a + b"),
        LeaveNote(text="<b>\n\x00"),
    ]
    appended = [append_command(folder, action, "me\n") for action in asked]
    commands, problems = read_commands(folder)
    assert commands == appended and [one.action for one in commands] == asked and problems == []
    assert commands[0].by == "me" and (folder / STEERING).stat().st_mode & 0o777 == 0o600


def test_what_is_no_command_is_named_and_a_half_written_line_is_not_there_yet(folder: Path) -> None:
    append_command(folder, StopSearch(), "a")
    with (folder / STEERING).open("ab") as file:
        file.write(b'{"id": 1}\n\xff\xfe\n{"id": "01')
    commands, problems = read_commands(folder)
    assert len(commands) == 1 and [problem.split(": ")[1] for problem in problems] == [
        "line 2 is no command.",
        "line 3 is no command.",
    ]
    append_command(folder, StopSearch(), "b")
    assert [one.by for one in read_commands(folder)[0]] == ["a", "b"], (
        "what was cut off takes no other with it"
    )


def test_many_at_once_lose_nothing(folder: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: append_command(folder, ForbidTechnique(technique=f"t{n}"), "x"), range(64)))
    commands, problems = read_commands(folder)
    assert len(commands) == 64 and problems == []


def test_a_folder_without_a_run_is_refused_and_one_without_commands_has_none(
    folder: Path, tmp_path: Path
) -> None:
    assert read_commands(folder) == ([], [])
    with pytest.raises(StoreError, match="holds no run"):
        append_command(tmp_path / "elsewhere", StopSearch(), "x")


@pytest.mark.parametrize(
    "make",
    [
        SetBudget,
        lambda: SetBudget(evaluations=0),
        lambda: SetBudget(wall_seconds=float("inf")),
        lambda: SetBudget(gpu_seconds=float("nan")),
        lambda: PinTechnique(technique=""),
        lambda: PinTechnique(technique="a\nb"),
        lambda: ForbidTechnique(technique="<script>"),
        lambda: LeaveNote(text="x" * (LONGEST_NOTE + 1)),
    ],
)
def test_what_makes_no_sense_cannot_be_asked(make: object) -> None:
    with pytest.raises(ValidationError):
        make()  # type: ignore[operator]


def test_words_for_people() -> None:
    assert (
        describe_action(SetBudget(evaluations=40, gpu_seconds=1.5))
        == "budget of 40 candidates, 1.5 s of the device"
    )
    assert describe_action(LeaveNote(text="hm", standing=True)) == "standing note: hm"
    assert (
        describe_action(ForbidTechnique(technique="a")) == "forbid a"
        and describe_action(StopSearch()) == "stop"
    )


def test_who_works_on_a_run_is_seen_without_touching_its_lock(folder: Path) -> None:
    assert writer_of(folder) is None
    with open_run(folder.parent, folder.name, writing=True):
        assert writer_of(folder) == os.getpid() and writer_of(folder, lock_holders()) == os.getpid()
        with open_run(folder.parent, folder.name):
            assert writer_of(folder) == os.getpid(), "readers do not count"
    with (folder / "events.jsonl").open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        assert writer_of(folder) is None, "nor do shared locks"
    assert writer_of(folder.parent / "gone") is None


def test_a_run_that_never_began_leaves_no_commands(folder: Path) -> None:
    append_command(folder, StopSearch(), "x")
    assert discard_unbegun(open_run(folder.parent, folder.name, writing=True)) and not folder.exists()
