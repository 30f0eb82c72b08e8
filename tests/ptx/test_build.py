"""Building the machine: what was compiled before an interruption is not compiled again, and it is told."""

from pathlib import Path
from typing import Any

import pytest

from kernelblaster.building import building, telling
from kernelblaster.errors import KernelBlasterError
from kernelblaster.ptx import build


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    monkeypatch.setenv("KERNELBLASTER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(build.os, "sched_getaffinity", lambda _: {0})
    files = [tmp_path / f"{name}.cpp" for name in "abc"]
    for length, file in enumerate(files, 1):
        file.write_text("//\n" * length)
    return files


def test_an_interrupted_build_goes_on_where_it_was(
    sources: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled: list[str] = []
    broken = {"b"}

    def run_leashed(command: list[str], **limits: object) -> tuple[int, str]:
        name = Path(command[-3]).stem
        compiled.append(name)
        if name in broken:
            raise KeyboardInterrupt
        Path(command[-1]).write_text(name)
        return 0, ""

    monkeypatch.setattr(build, "run_leashed", run_leashed)
    with pytest.raises(KeyboardInterrupt):
        build.compiled("g++", sources, "about", lambda text: None)
    assert compiled[:2] == ["c", "b"]  # the largest first
    broken.clear()
    told: list[str] = []
    before = len(compiled)
    objects = build.compiled("g++", sources, "about", told.append)
    assert [Path(made).read_text() for made in objects] == ["a", "b", "c"]
    assert "c" not in compiled[before:] and told[0] == f"{3 - len(compiled[before:])} of 3 files"
    build.compiled("g++", sources, "another compiler", lambda text: None)
    assert compiled.count("c") == 2


def test_a_file_that_does_not_compile_is_said(sources: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "run_leashed", lambda command, **limits: (1, "no such thing"))
    with pytest.raises(KernelBlasterError, match="could not be built: no such thing"):
        build.compiled("g++", sources, "about", lambda text: None)


def test_whoever_watches_is_told_and_otherwise_standard_error(capsys: Any) -> None:
    told: list[str] = []
    with telling(told.append), building("the emulator", "about a minute") as tell:
        tell("3 of 42 files")
    assert told == ["building the emulator once, about a minute", f"{told[0]}: 3 of 42 files, 0 s"]
    assert capsys.readouterr().err == ""
    with building("the emulator", "about a minute") as tell:
        tell("3 of 42 files")
    begun, ended = capsys.readouterr().err.splitlines()
    assert begun == "building the emulator once, about a minute ..." and ended.startswith(
        "built the emulator"
    )


@pytest.mark.parametrize("works", [True, False])
def test_many_files_share_a_precompiled_header_where_it_can_be_made(
    sources: list[Path], monkeypatch: pytest.MonkeyPatch, works: bool
) -> None:
    more = [sources[0].with_name(f"{name}.cpp") for name in "def"]
    for file in more:
        file.write_text("//\n")
    commands: list[list[str]] = []

    def run_leashed(command: list[str], **limits: object) -> tuple[int, str]:
        commands.append(command)
        if "c++-header" in command and not works:
            return 1, "no space left"
        Path(command[-1]).write_text("")
        return 0, ""

    monkeypatch.setattr(build, "run_leashed", run_leashed)
    build.compiled("g++", [*sources, *more], "about", lambda text: None)
    header, *others = commands
    assert "c++-header" in header and len(others) == 6
    for command in others:
        given = command[command.index("-include") + 1] if "-include" in command else None
        assert (f"{given}.gch" == header[-1]) is works
    assert not Path(header[-1]).exists()  # it is large
