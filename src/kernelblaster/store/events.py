"""An append-only log of events, a line each. A line counts once it is whole: what a crash cut off is as
if it had never been written, and a line that was changed later is found."""

import contextlib
import fcntl
import json
import os
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from pydantic import Field

from kernelblaster.errors import StoreError
from kernelblaster.records.record import Record


class Event(Record):
    """Something that happened in a run. `key` tells events of one kind apart; `at` is in seconds since
    1970 and has no part in anything but display."""

    number: int
    at: float
    kind: str
    key: str = ""
    data: dict[str, Any] = Field(default_factory=dict)


class EventLog:
    """The log in one file. It is held by one process at a time; others may read."""

    def __init__(self, path: Path, *, writing: bool) -> None:
        self._path = path
        self._file: BinaryIO | None = _held(path) if writing else None
        self.events, whole = _read(path)
        if self._file is not None and whole < path.stat().st_size:
            self._file.truncate(whole)

    def append(self, kind: str, key: str = "", *, lasting: bool = True, **data: Any) -> Event:
        """Add an event. It is on the disk when this returns; one that is not `lasting` is safe from the
        end of this process at once, and from that of the machine with the next one that is."""
        if self._file is None:
            raise StoreError(f"{self._path}: was opened for reading only.")
        event = Event(number=len(self.events), at=time.time(), kind=kind, key=key, data=data)
        text = event.model_dump_json().encode()
        end = self._file.seek(0, os.SEEK_END)
        try:
            self._file.write(b"%08x %s\n" % (zlib.crc32(text), text))
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
        return event

    def of(self, kind: str) -> Iterator[Event]:
        return (event for event in self.events if event.kind == kind)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


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


def _read(path: Path) -> tuple[list[Event], int]:
    """All whole events, and how many bytes they take. Only the last line may be damaged."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror or error}") from error
    events: list[Event] = []
    whole = 0
    lines = data.split(b"\n")
    for number, line in enumerate(lines[:-1]):
        event = _parse(line, number)
        if event is None:
            if number == len(lines) - 2:
                break
            raise StoreError(f"{path}: line {number + 1} is damaged; the events before it are whole.")
        events.append(event)
        whole += len(line) + 1
    return events, whole


def _parse(line: bytes, number: int) -> Event | None:
    checksum, _, text = line.partition(b" ")
    try:
        if int(checksum, 16) != zlib.crc32(text):
            return None
        event = Event.model_validate(json.loads(text))
    except ValueError:
        return None
    return event if event.number == number else None
