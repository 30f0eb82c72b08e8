"""Running the worker under one of NVIDIA's tools, which read and write pipes of their own: the worker
takes its commands from a file there, works on a private copy of the arena, and is not sandboxed, so
only candidates that passed verification get here."""

import contextlib
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kernelblaster.devices.device import ProfileJob
from kernelblaster.devices.worker_process import HOST_MEMORY_BYTES, encode
from kernelblaster.errors import DeviceLost

FLUSH_BYTES = 1 << 20
TOOL_START_S = 60.0
PAUSE_S = 0.005


class Toolbox:
    """The worker under tools. A tool that will be wanted `again` is started ahead of that: it takes a
    second or two to get to the worker's first command."""

    def __init__(self, executable: Path, environment: dict[str, str]) -> None:
        self._executable = executable
        self._environment = environment
        self._ahead: dict[tuple[str, ...], _Started] = {}

    def run(
        self, tool: list[str], arena_handle: str, jobs: Sequence[ProfileJob], *, again: bool = False
    ) -> tuple[str, list[dict[str, Any]]]:
        """The tool's output, and the worker's answer for each job that was reached."""
        started = self._ahead.pop(tuple(tool), None)
        if started is None or started.ended:
            started = self._start(tool)
        lines = [f"arena {arena_handle} {max(job.extent for job in jobs)}", "copy"]
        for job in jobs:
            lines += [f"load {job.binary}", f"profile {encode(job.arguments)}", "unload"]
        try:
            output, answers = started.work(lines, TOOL_START_S + sum(job.limit_s for job in jobs))
        finally:
            started.close()
        for answer in answers:
            if "fault" in answer:
                raise DeviceLost(f"under {tool[0]}: {answer['fault']}")
        if again:
            self._ahead[tuple(tool)] = self._start(tool)
        return output, [answer for answer in answers if "work" in answer]

    def settle(self) -> None:
        """Wait until what was started ahead does nothing but wait."""
        for started in self._ahead.values():
            started.settle()

    def close(self) -> None:
        for started in self._ahead.values():
            started.close()
        self._ahead.clear()

    def _start(self, tool: list[str]) -> "_Started":
        return _Started(tool, self._executable, self._environment)


class _Started:
    """A tool that has been started, with the worker under it."""

    def __init__(self, tool: list[str], executable: Path, environment: dict[str, str]) -> None:
        self._tool = tool[0]
        self._folder = tempfile.TemporaryDirectory(prefix="kernelblaster-tool-", ignore_cleanup_errors=True)
        name = self._folder.name
        self._commands = Path(name) / "commands"
        self._replies = Path(name) / "replies"
        command = [*tool, str(executable), str(FLUSH_BYTES), str(HOST_MEMORY_BYTES)]
        command += [str(self._commands), str(self._replies), str(os.getpid())]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env=environment | {"HOME": name, "TMPDIR": name},
        )

    @property
    def ended(self) -> bool:
        return self._process.poll() is not None

    def work(self, lines: Sequence[str], limit_s: float) -> tuple[str, list[dict[str, Any]]]:
        """Its output and the worker's answers; it then has ended."""
        scratch = self._commands.with_suffix(".new")
        scratch.write_text("\n".join(lines) + "\n")
        scratch.rename(self._commands)
        try:
            output, errors = self._process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired as error:
            raise DeviceLost(f"{self._tool} did not finish within {limit_s:g} s") from error
        return output + errors, [json.loads(line) for line in self._answered()]

    def settle(self) -> None:
        until = time.monotonic() + TOOL_START_S
        while not self._answered() and not self.ended and time.monotonic() < until:
            time.sleep(PAUSE_S)

    def close(self) -> None:
        self._process.kill()
        self._folder.cleanup()  # without which no worker waits
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.communicate(timeout=5)

    def _answered(self) -> list[str]:
        return self._replies.read_text().splitlines() if self._replies.is_file() else []
