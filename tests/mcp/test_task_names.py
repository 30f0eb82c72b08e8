"""Agents reach shipped tasks, what they made, and files in allowed folders; nothing else."""

from pathlib import Path

import pytest

from kernelblaster.errors import BadTask, KernelBlasterError
from kernelblaster.mcp.task_names import TaskNames


@pytest.fixture
def names(tmp_path: Path) -> TaskNames:
    allowed = tmp_path / "allowed"
    (allowed / ".git").mkdir(parents=True)
    (allowed / ".git" / "config.cu").write_text("secret")
    (allowed / "mine.cu").write_text("__global__ void f() {}")
    (tmp_path / "outside.cu").write_text("secret")
    (allowed / "link.cu").symlink_to(tmp_path / "outside.cu")
    return TaskNames((allowed,), tmp_path / "made")


ELSEWHERE = [
    "/etc/passwd",
    "../outside.cu",
    "link.cu",
    ".git/config.cu",
    "a\0b.cu",
    "",
    ".",
    "x" * 2000 + ".cu",
]


@pytest.mark.parametrize("name", ELSEWHERE)
def test_nothing_outside_the_folders_is_read_or_written(names: TaskNames, name: str) -> None:
    with pytest.raises(KernelBlasterError):
        names.read(name)
    with pytest.raises(BadTask if not name.endswith(".cu") else KernelBlasterError):
        names.find(name)
    if name != "x" * 2000 + ".cu":
        with pytest.raises(KernelBlasterError):
            names.writable(name)


def test_files_in_a_folder_are_found_by_relative_and_absolute_names(names: TaskNames) -> None:
    assert names.read("mine.cu") == names.read(str(names.folders[0] / "mine.cu"))
    assert not names.find("mine.cu").shipped
    assert str(names.folders[0] / "mine.cu") in names.names()
    assert names.writable("new.cu").parent == names.folders[0]


def test_a_made_task_has_a_name_by_its_content(names: TaskNames) -> None:
    made = names.make("class Model: ...\n", "../My task!")
    assert made == names.make("class Model: ...\n", "../My task!")
    assert made.startswith("made/My_task-") and names.find(made).path.suffix == ".py"
    assert names.make("__global__ void f() {}\n", "k").startswith("made/k-")
    names.forget(made)
    with pytest.raises(BadTask, match="list_tasks"):
        names.find(made)


def test_a_wrong_name_is_answered_with_the_nearest(names: TaskNames) -> None:
    with pytest.raises(BadTask, match="core/level1/softmax"):
        names.find("softmax")
    assert names.find("core/level1/softmax").shipped


def test_a_file_is_found_by_its_name_alone_if_there_is_one_of_it(names: TaskNames) -> None:
    (names.folders[0] / "mine.py").write_text("class Model: ...")
    assert names.find("mine").path == names.folders[0] / "mine.py"  # a candidate may have the same name
    with pytest.raises(BadTask, match="there is no task"):
        names.find("min")


def test_without_folders_no_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(KernelBlasterError, match="without folders"):
        TaskNames((), tmp_path).read("mine.cu")
