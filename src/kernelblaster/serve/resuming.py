"""Searches that were resumed from the dashboard: each is a process of its own, which outlives this one."""

import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from kernelblaster.errors import StoreError
from kernelblaster.plain_text import printable
from kernelblaster.store.writer import writer_of

SAID_BYTES = 4000  # of what a process said that are kept
ENDING_S = 5.0
FINE = (0, 1, 130)  # exit codes of `resume` that are no errors: faster, not faster, stopped


@dataclass
class _Started:
    """A process that continues a run, and the file that it writes its messages to. `worked`: it was seen to
    hold the run's lock. `notice` is the sentence on how it ended, None while it has not."""

    process: "subprocess.Popen[bytes]"
    said: IO[bytes]
    worked: bool = False
    notice: str | None = None

    @property
    def preparing(self) -> bool:
        """Whether the process is alive and has not begun to work on the run yet; one that worked and released
        the run is only ending."""
        return not self.worked and self.process.poll() is None

    def end(self, code: int) -> str:
        """The sentence for people on a process that ended with this exit code; empty if it ended well. Its
        file is closed, so that a server that starts many searches does not keep one open for each."""
        if self.notice is None:
            self.notice = ""
            if code not in FINE:
                self.said.seek(max(0, self.said.seek(0, 2) - SAID_BYTES))
                words = printable(self.said.read().decode(errors="replace").strip())
                self.notice = f"Resuming failed (exit code {code}). {words}"
            self.said.close()
        return self.notice


class ResumedRuns:
    """Starts processes that continue searches, and remembers for each how it ended. May be used by several
    threads."""

    def __init__(self) -> None:
        self._started: dict[Path, _Started] = {}
        self._lock = threading.Lock()

    def start(self, folder: Path, usd: float | None = None, tokens: int | None = None) -> int:
        """Continues the run in `folder` in a new process, which outlives this one; returns the process's id.
        `usd` and `tokens` are new budgets for language models, None leaves them. Raises StoreError if a
        process works on the run already."""
        self._await_end(folder)
        with self._lock:
            known = self._started.get(folder)
            if writer_of(folder) is not None or (known and known.preparing):
                raise StoreError(f"{folder.name}: a process works on it already.")
            command = [sys.executable, "-m", "kernelblaster", "resume", str(folder), "--json"]
            command += ["--usd", str(usd)] if usd is not None else []
            command += ["--tokens", str(tokens)] if tokens is not None else []
            said = tempfile.TemporaryFile()  # noqa: SIM115 (read later, closed with the next)
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=said,
                start_new_session=True,  # Ctrl-C here does not end it
            )
            for one in self._started.values():
                ended = one.process.poll()
                if ended is not None:
                    one.end(ended)
            if known is not None:
                known.said.close()
            self._started[folder] = _Started(process, said)
            return process.pid

    def _await_end(self, folder: Path) -> None:
        """Waits, for at most ENDING_S seconds, for the end of a process that was started for the run in
        `folder`, does not hold its lock, and was never seen to work."""
        with self._lock:
            known = self._started.get(folder)
        if known is not None and known.preparing and writer_of(folder) is None:
            with suppress(subprocess.TimeoutExpired):
                known.process.wait(ENDING_S)

    def notice(self, folder: Path) -> str:
        """Returns a sentence for people about the process that was started for the run in `folder`: that it
        is starting, or how it failed. Empty if no process was started, if it is at work, or if it has ended
        well."""
        with self._lock:
            started = self._started.get(folder)
            if started is None:
                return ""
            code = started.process.poll()
            if code is None:
                started.worked = started.worked or writer_of(folder) is not None
                return "" if started.worked else "A process was started, and is getting ready."
            return started.end(code)

    @property
    def running(self) -> int:
        """How many of the processes that this object has started are still running."""
        with self._lock:
            return sum(one.process.poll() is None for one in self._started.values())
