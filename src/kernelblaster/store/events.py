"""An append-only log of events, a line each. A line counts once it is whole: what a crash cut off is as
if it had never been written, and a line that was changed later is found."""

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

__all__ = ["EventLog", "RunEvent", "first_event"]
_log = logging.getLogger(__name__)


class EventLog:
    """The log in one file. It is held by one process at a time; others may read."""

    def __init__(self, path: Path, *, writing: bool) -> None:
        self._path = path
        self._file: BinaryIO | None = _held(path) if writing else None
        self._opened = time.monotonic()
        try:
            found = _read(path)
            if self._file is not None and found.torn:
                _log.warning("%s: the last line was cut off while it was written; it is dropped.", path)
                self._file.truncate(found.bytes)
        except BaseException:
            self.close()
            raise
        self.events, self._sum = found.events, found.sum

    def append(self, kind: str, key: str = "", *, lasting: bool = True, **data: Any) -> RunEvent:
        """Add an event. It is on the disk when this returns; one that is not `lasting` is safe from the
        end of this process at once, and from that of the machine with the next one that is."""
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
        line, own = lines.written(event, self._sum)
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
        return (event for event in self.events if event.kind == kind)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def first_event(path: Path) -> RunEvent | None:
    """The first event of a log; None where it is not whole."""
    try:
        with path.open("rb") as file:
            found = lines.read(file.readline().removesuffix(b"\n"), 0, "")
    except OSError:
        return None
    return found and found[0]


def _held(path: Path) -> BinaryIO:
    """The file, unbuffered and locked until it is closed."""
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


class _Found(NamedTuple):
    """The whole events, how many bytes they take, the last one's checksum, and whether a line was cut off."""

    events: list[RunEvent]
    bytes: int
    sum: str
    torn: bool


def _read(path: Path) -> _Found:
    """Only a last line without an end may be less than whole: it was being written, or still is."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror or error}") from error
    *whole, rest = data.split(b"\n")
    later = lines.later_format(whole[0]) if whole else None
    if later is not None:
        raise StoreError(
            f"{path}: has format {later}, and this version of KernelBlaster reads up to format {FORMAT}; "
            "install a later one."
        )
    events: list[RunEvent] = []
    own = ""
    for number, line in enumerate(whole):
        found = lines.read(line, number, own)
        if found is None:
            raise _damaged(path, number)
        events.append(found[0])
        own = found[1]
    if rest and lines.read(rest[:-1], len(events), own) is not None:
        raise _damaged(path, len(events))  # all is there but its end is another letter
    return _Found(events, len(data) - len(rest), own, bool(rest))


def _damaged(path: Path, number: int) -> StoreError:
    return StoreError(
        f"{path}: line {number + 1} is damaged; the {number} before it are whole. Restore a copy, or keep "
        f"only those (head -n {number}) and let `kernelblaster resume` do the rest again."
    )
