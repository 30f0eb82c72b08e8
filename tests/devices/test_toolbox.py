"""The toolbox with a stand-in for the launcher, under a tool that only runs it."""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

from kernelblaster.devices.device import CallReport, ProfileJob
from kernelblaster.devices.native_build import NATIVE
from kernelblaster.devices.player_process import PlayerProcess
from kernelblaster.devices.toolbox import Toolbox, listening_at

TOOL = ["/usr/bin/env"]
LAUNCHER = """#!{python}
import os, socket, sys, time
channel = socket.socket(socket.AF_UNIX)
os.chdir(os.path.dirname(sys.argv[4]))
channel.connect(os.path.basename(sys.argv[4]))
time.sleep(0.3)
with open("{folder}/started", "a") as file:
    print(os.getpid(), file=file)
channel.sendall(b'{{"ready": true}}\\n')
for line in channel.makefile():
    channel.sendall(b'{answer}\\n')
print("the tool's words")
"""


class Loaded:
    """What the toolbox needs of a runner."""

    def __init__(self, player: PlayerProcess) -> None:
        self._player = player

    def ask(self, command: str) -> dict[str, Any]:
        return self._player.command(command, 5.0)

    def profile(self, arguments: object, limit_s: float) -> CallReport:
        return CallReport(str(self.ask("profile").get("error", "")), (), 0, ())

    def drop_all(self) -> None:
        pass


def toolbox(folder: Path, answer: str = '{"ok": true}') -> Toolbox:
    launcher = folder / "launcher"
    launcher.write_text(LAUNCHER.format(python=sys.executable, folder=folder, answer=answer))
    launcher.chmod(0o755)
    load: Any = lambda player, _: Loaded(player)  # noqa: E731
    return Toolbox(launcher, load)


def job(folder: Path) -> ProfileJob:
    return ProfileJob(folder / "candidate.so", (), "primary")


def started(folder: Path) -> list[int]:
    return [int(line) for line in (folder / "started").read_text().split()]


def gone(process: int) -> bool:
    until = time.monotonic() + 5
    while time.monotonic() < until:
        if not Path(f"/proc/{process}").exists():
            return True
        time.sleep(0.02)
    return False


def test_each_job_is_answered(tmp_path: Path) -> None:
    output, reports = toolbox(tmp_path).run(TOOL, [job(tmp_path), job(tmp_path)])
    assert len(reports) == 2
    assert "the tool's words" in output
    assert len(started(tmp_path)) == 1


@pytest.fixture
def deep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A temporary folder whose path is too long for the address of a socket."""
    folder = tmp_path / ("temporary" * 14)
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def test_the_path_of_temporary_files_may_be_long(tmp_path: Path, deep: Path) -> None:
    _, reports = toolbox(tmp_path).run(TOOL, [job(tmp_path)])
    assert len(reports) == 1


def test_players_connect_in_a_folder_with_a_long_path(tmp_path: Path, deep: Path, compiler: str) -> None:
    source = '#include "protocol.h"\nint main(int, char** a) { Channel c; if (c.open_at(a[1])) c.ok(); }\n'
    (tmp_path / "player.cpp").write_text(source)
    command = ["g++", "-std=c++17", f"-I{NATIVE}", "player.cpp", "-o", "player"]
    subprocess.run(command, cwd=tmp_path, check=True)
    listening = listening_at(deep, "socket")
    listening.settimeout(20)
    player = subprocess.Popen([tmp_path / "player", deep / "socket"])
    channel, _ = listening.accept()
    assert json.loads(channel.recv(100)) == {"ok": True}
    assert player.wait(20) == 0
    channel.close()
    listening.close()


def test_what_is_wanted_again_is_started_ahead(tmp_path: Path) -> None:
    tools = toolbox(tmp_path)
    tools.run(TOOL, [job(tmp_path)], again=True)
    tools.settle()
    first, ahead = started(tmp_path)
    tools.run(TOOL, [job(tmp_path)])
    assert started(tmp_path) == [first, ahead]
    tools.close()


def test_what_was_started_ahead_ends_with_the_toolbox(tmp_path: Path) -> None:
    tools = toolbox(tmp_path)
    tools.run(TOOL, [job(tmp_path)], again=True)
    tools.settle()
    tools.close()
    assert all(gone(process) for process in started(tmp_path))


def test_what_died_while_it_waited_is_started_anew(tmp_path: Path) -> None:
    tools = toolbox(tmp_path)
    tools.run(TOOL, [job(tmp_path)], again=True)
    tools.settle()
    subprocess.run(["kill", "-9", str(started(tmp_path)[-1])], check=True)
    time.sleep(0.2)
    assert len(tools.run(TOOL, [job(tmp_path)])[1]) == 1


def test_a_launcher_that_dies_under_a_tool_leaves_its_output(tmp_path: Path) -> None:
    tools = toolbox(tmp_path)
    launcher = tmp_path / "launcher"
    dying = "print('hit an error', flush=True)\nos._exit(3)\nfor line in channel"
    launcher.write_text(launcher.read_text().replace("for line in channel", dying))
    output, reports = tools.run(TOOL, [job(tmp_path)])
    assert reports == [] and "hit an error" in output
