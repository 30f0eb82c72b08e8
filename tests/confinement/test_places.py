"""Folders that hold more than one project are not given to a task, nor filled with results."""

from pathlib import Path

import pytest

from kernelblaster.confinement.places import is_wide


@pytest.mark.parametrize(
    "folder", ["/", "/home", "/home/someone", "/root", "/tmp", "/etc", "/usr", "/var/tmp"]
)
def test_folders_of_the_system_are_wide(folder: str) -> None:
    assert is_wide(Path(folder))


def test_the_home_folder_is_wide_and_so_is_what_contains_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "users" / "me"
    (home / "project").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    (tmp_path / "link").symlink_to(home)
    assert is_wide(home) and is_wide(home.parent) and is_wide(tmp_path / "link")
    assert not is_wide(home / "project")


def test_a_folder_that_is_shared_by_all_is_wide(tmp_path: Path) -> None:
    shared, own = tmp_path / "shared", tmp_path / "own"
    for folder, mode in ((shared, 0o1777), (own, 0o777)):
        folder.mkdir()
        folder.chmod(mode)
    assert is_wide(shared) and not is_wide(own)
