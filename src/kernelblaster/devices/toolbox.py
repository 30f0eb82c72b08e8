"""Running the worker under one of NVIDIA's tools, which read and write pipes of their own: the worker
takes its commands from a file there, works on a private copy of the arena, and is not sandboxed, so
only candidates that passed verification get here."""

import json
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelblaster.devices.device import ProfileJob
from kernelblaster.devices.worker_process import HOST_MEMORY_BYTES, encode
from kernelblaster.errors import DeviceLost

FLUSH_BYTES = 1 << 20
TOOL_START_S = 60.0


@dataclass(frozen=True)
class Toolbox:
    """The worker, its environment, and the handle of the arena."""

    executable: Path
    environment: dict[str, str]
    arena_handle: str

    def run(self, tool: list[str], jobs: Sequence[ProfileJob]) -> tuple[str, list[dict[str, Any]]]:
        """The tool's output, and the worker's answer for each job that was reached."""
        with tempfile.TemporaryDirectory(prefix="kernelblaster-tool-") as name:
            folder = Path(name)
            extent = max(job.extent for job in jobs)
            lines = [f"arena {self.arena_handle} {extent}", "copy"]
            for job in jobs:
                lines += [f"load {job.binary}", f"profile {encode(job.arguments)}", "unload"]
            (folder / "commands").write_text("\n".join(lines) + "\n")
            command = [*tool, str(self.executable), str(FLUSH_BYTES), str(HOST_MEMORY_BYTES)]
            command += [str(folder / "commands"), str(folder / "replies")]
            limit_s = TOOL_START_S + sum(job.limit_s for job in jobs)
            try:
                done = subprocess.run(
                    command,
                    capture_output=True,
                    text=True,
                    errors="replace",
                    env=self.environment | {"HOME": name, "TMPDIR": name},
                    timeout=limit_s,
                    check=False,
                )
            except subprocess.TimeoutExpired as error:
                raise DeviceLost(f"{tool[0]} did not finish within {limit_s:g} s") from error
            replies = folder / "replies"
            lines = replies.read_text().splitlines() if replies.is_file() else []
            answers = [json.loads(line) for line in lines]
        for answer in answers:
            if "fault" in answer:
                raise DeviceLost(f"under {tool[0]}: {answer['fault']}")
        return done.stdout + done.stderr, [answer for answer in answers if "work" in answer]
