"""The lock of a GPU is a file in a folder that others may write to: what they put there does no harm."""

import os
from pathlib import Path

import pytest

from kernelblaster.devices import gpu_lock
from kernelblaster.errors import KernelBlasterError

NAME = "kernelblaster-GPU-1.lock"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(gpu_lock.tempfile, "gettempdir", lambda: str(tmp_path))
    return tmp_path


def test_a_lock_says_who_has_it(folder: Path) -> None:
    for _ in range(2):
        with gpu_lock.locked_file("GPU-1", print):
            assert (folder / NAME).read_text() == str(os.getpid())
    assert (folder / NAME).stat().st_mode & 0o777 == 0o666


def test_a_link_is_not_followed(folder: Path) -> None:
    (folder / "precious").write_text("precious")
    (folder / NAME).symlink_to(folder / "precious")
    with pytest.raises(KernelBlasterError, match="cannot be used"):
        gpu_lock.locked_file("GPU-1", print)
    assert (folder / "precious").read_text() == "precious"


def test_a_second_name_of_a_file_is_refused(folder: Path) -> None:
    (folder / "precious").write_text("precious")
    os.link(folder / "precious", folder / NAME)
    with pytest.raises(KernelBlasterError, match="is not the lock of a GPU"):
        gpu_lock.locked_file("GPU-1", print)
    assert (folder / "precious").read_text() == "precious"


def test_a_pipe_is_refused_and_not_waited_for(folder: Path) -> None:
    os.mkfifo(folder / NAME)
    with pytest.raises(KernelBlasterError, match="is not the lock of a GPU"):
        gpu_lock.locked_file("GPU-1", print)


def test_a_name_is_only_a_name(folder: Path) -> None:
    with pytest.raises(KernelBlasterError, match="is no GPU"):
        gpu_lock.locked_file("../x", print)
