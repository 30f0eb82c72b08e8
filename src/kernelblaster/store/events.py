"""An append-only log of events, one JSON line each, chained by checksums. A last line that a crash cut off is
dropped; a line that was changed later is detected."""

import contextlib
import fcntl
import logging
import os
import secrets
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from kernelblaster.errors import StoreError
from kernelblaster.store import lines
from kernelblaster.store.lines import FORMAT, RunEvent

__all__ = ["EventLog", "RunEvent", "first_event", "open_locked"]
_log = logging.getLogger(__name__)


class EventLog:
    """The log of a run in the file `path`; `events` are all complete ones, read when it is opened. One
    process at a time may open it for `writing`, others may read. Raises StoreError if the file is damaged, or
    cannot be opened or locked."""

    def __init__(self, path: Path, *, writing: bool) -> None:
        self._path = path
        self._file: BinaryIO | None = open_locked(path) if writing else None
        self._opened = time.monotonic()
        try:
            content = _read(path)
            if self._file is not None and content.torn:
                _log.warning("%s: the last line was cut off while it was written; it is dropped.", path)
                self._file.truncate(content.bytes)
        except BaseException:
            self.close()
            raise
        self.events, self._sum = content.events, content.sum

    def append(self, kind: str, key: str = "", *, lasting: bool = True, **data: Any) -> RunEvent:
        """Appends an event of this `kind` with this `data`, which must be JSON, and returns it. `key` may be
        empty; otherwise the caller must see to it that no other event of the kind has it. By default the
        event is on the disk (fsync) when this returns; if not `lasting`, it survives the end of this process,
        but not a crash of the machine before the next lasting event. Raises StoreError if the log is
        read-only or cannot be written."""
        if self._file is None:
            raise StoreError(f"{self._path}: was opened for reading only.")
        number = len(self.events)
        event = RunEvent(
            number=number,
            at=time.time(),
            after=time.monotonic() - self._opened,
            kind=kind,
            key=key,
            format=None if number else FORMAT,
            id=None if number else secrets.token_hex(8),
            data=data,
        )
        line, own = lines.encode(event, self._sum)
        end = self._file.seek(0, os.SEEK_END)
        try:
            self._file.write(line + b"\n")
            self._file.flush()
            if lasting:
                os.fsync(self._file.fileno())
        except OSError as error:
            with contextlib.suppress(OSError):
                self._file.truncate(end)
            raise StoreError(
                f"{self._path}: cannot write: {error.strerror or error}. What was recorded before is safe."
            ) from error
        self.events.append(event)
        self._sum = own
        return event

    def of(self, kind: str) -> Iterator[RunEvent]:
        """Yields the events of one kind (like "evaluation") in the order in which they were recorded."""
        return (event for event in self.events if event.kind == kind)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def first_event(path: Path) -> RunEvent | None:
    """Returns the first event in the log file `path`, which describes task and settings, without reading the
    rest. None if the file cannot be read, or its first line is incomplete."""
    try:
        with path.open("rb") as file:
            event_and_sum = lines.decode(file.readline().removesuffix(b"\n"), 0, "")
    except OSError:
        return None
    return event_and_sum and event_and_sum[0]


def open_locked(path: Path) -> BinaryIO:
    """Opens the file `path` for appending, unbuffered, and locks it until it is closed. Raises StoreError if
    another process has it open for writing."""
    try:
        file = path.open("ab", buffering=0)
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror or error}") from error
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        file.close()
        raise StoreError(f"{path.parent}: another process is working on this run.") from error
    return file  # type: ignore[return-value]


class _LogContent(NamedTuple):
    """The complete events of a log, their size in bytes, the last one's checksum, and whether a cut-off line
    follows."""

    events: list[RunEvent]
    bytes: int
    sum: str
    torn: bool


def _read(path: Path) -> _LogContent:
    """Reads the whole log in a file and verifies its checksums. Only the last line may be incomplete: it is
    being written, or its writer was killed. Raises StoreError if any other is damaged, or the format is too
    new."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror or error}") from error
    *whole, cut_off = data.split(b"\n")
    later = lines.later_format(whole[0]) if whole else None
    if later is not None:
        raise StoreError(
            f"{path}: has format {later}, and this version of KernelBlaster reads up to format {FORMAT}; "
            "install a later one."
        )
    events: list[RunEvent] = []
    checksum = ""
    for number, line in enumerate(whole):
        event_and_sum = lines.decode(line, number, checksum)
        if event_and_sum is None:
            raise _damaged(path, number)
        events.append(event_and_sum[0])
        checksum = event_and_sum[1]
    if cut_off and lines.decode(cut_off[:-1], len(events), checksum) is not None:
        raise _damaged(path, len(events))  # complete, but its newline was changed
    return _LogContent(events, len(data) - len(cut_off), checksum, bool(cut_off))


def _damaged(path: Path, number: int) -> StoreError:
    """The exception to raise for a log file in which line `number` (from 0) is damaged; its message says what
    the user can do."""
    return StoreError(
        f"{path}: line {number + 1} is damaged; the {number} before it are whole. Restore a copy, or keep "
        f"only those (head -n {number}) and let `kernelblaster resume` do the rest again."
    )
