"""Runs the GPU player, the process that replays a candidate's launches, under ncu or compute-sanitizer. The
player holds no host code of the candidate, so the tool needs no sandbox. The player is reached over a socket
with a path: these tools start it, and pass no file descriptors on to it."""

import contextlib
import os
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from kernelblaster.confinement.tool_starter import start_tool
from kernelblaster.devices import window
from kernelblaster.devices.device import CallReport, CandidateDied, CandidateHung, ProfileJob
from kernelblaster.devices.player_process import PlayerProcess
from kernelblaster.devices.replay import ReplayRunner
from kernelblaster.errors import DeviceLost
from kernelblaster.scratch import Scratch

FLUSH_BYTES = 1 << 20
TOOL_START_S = 60.0
PAUSE_S = 0.005
Load = Callable[[PlayerProcess, Path], ReplayRunner]


class Toolbox:
    """Runs GPU players (processes that replay a candidate's launches) under NVIDIA's tools (ncu,
    compute-sanitizer). `executable` is the player. `load(player, binary)` loads the candidate whose shared
    object is `binary` into a started player and returns its runner. A tool can be started ahead of its next
    use, since it takes a second or two to start."""

    def __init__(self, executable: Path, load: Load) -> None:
        self._executable = executable
        self._load = load
        self._ahead: dict[tuple[str, ...], _Started] = {}

    def run(
        self, tool: list[str], jobs: Sequence[ProfileJob], *, again: bool = False
    ) -> tuple[str, list[CallReport]]:
        """Runs all jobs (one call of a candidate each) under one start of `tool`, a command line like that of
        ncu. Returns (the tool's output, a report for each job). A job that fails ends the run; it and those
        after it have no report. With `again`, the same tool is started anew in the background for its next
        use."""
        started = self._ahead.pop(tuple(tool), None)
        if started is None or started.ended:
            if started is not None:
                started.close()
            started = self._start(tool)
        reports: list[CallReport] = []
        try:
            player = started.player()
            for job in jobs:
                runner = self._load(player, job.binary)
                reports.append(runner.profile(job.arguments, TOOL_START_S + job.limit_s))
                runner.drop_all()
                runner.ask("unload")
        except (CandidateDied, CandidateHung):
            pass  # the tool's own output says what it found, and fewer reports than jobs tell the rest
        finally:
            output = started.finish()
        if again:
            self._ahead[tuple(tool)] = self._start(tool)
        return output, reports

    def settle(self) -> None:
        """Waits until every tool that was started ahead is ready and idle, so that its start does not disturb
        a timing. A tool that fails to start is ignored."""
        for started in self._ahead.values():
            with contextlib.suppress(DeviceLost):
                started.player()

    def close(self) -> None:
        for started in self._ahead.values():
            started.close()
        self._ahead.clear()

    def _start(self, tool: list[str]) -> "_Started":
        return _Started(tool, self._executable)


class _Started:
    """A tool that was started, with a player under it (a process that replays launches), which connects to a
    socket in a temporary folder."""

    def __init__(self, tool: list[str], executable: Path) -> None:
        self._tool = tool[0]
        self._folder = Scratch()
        name = str(self._folder.path)
        path = f"{name}/socket"
        self._listening = listening_at(self._folder.path, "socket")
        self._player: PlayerProcess | None = None
        self._output = (Path(name) / "output").open("w+b")
        numbers = (FLUSH_BYTES, window.BEGIN, window.BYTES)
        command = [*tool, str(executable), *(str(number) for number in numbers), path]
        self._process = start_tool(command, self._folder.path, self._output.fileno())

    @property
    def ended(self) -> bool:
        return self._process.poll() is not None

    def player(self) -> PlayerProcess:
        """The player under this tool, once it is ready. Raises DeviceLost if the tool does not start it
        within TOOL_START_S seconds."""
        if self._player is None:
            self._listening.settimeout(PAUSE_S * 20)
            until = time.monotonic() + TOOL_START_S
            while True:
                try:
                    channel, _ = self._listening.accept()
                    break
                except TimeoutError as error:
                    if self.ended or time.monotonic() > until:
                        raise DeviceLost(f"{self._tool} did not start: {self._text()[-400:]}") from error
            channel.setblocking(True)
            self._player = PlayerProcess(self._process, channel)
        self._player.wait_ready()
        return self._player

    def finish(self) -> str:
        """End the player and with it the tool; returns the tool's output. Raises DeviceLost if the tool does
        not end within TOOL_START_S seconds."""
        if self._player is not None:
            self._player.end()
        try:
            self._process.wait(TOOL_START_S)
        except subprocess.TimeoutExpired as error:
            raise DeviceLost(f"{self._tool} did not finish") from error
        finally:
            text = self._text()
            self.close()
        return text

    def close(self) -> None:
        """Kill the tool if it still runs, and remove its temporary folder."""
        self._process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(5)
        self._listening.close()
        self._output.close()
        self._folder.close()

    def _text(self) -> str:
        """What the tool has printed so far; empty after `close`."""
        if self._output.closed:
            return ""
        self._output.seek(0)
        return self._output.read().decode(errors="replace")


def listening_at(folder: Path, name: str) -> socket.socket:
    """Makes a local socket called `name` in `folder` and listens on it. The address of a local socket has at
    most 107 characters; so that the folder's path may be longer, the folder is addressed as
    /proc/self/fd/N."""
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    opened = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    try:
        listening.bind(f"/proc/self/fd/{opened}/{name}")
    finally:
        os.close(opened)
    listening.listen(1)
    return listening
