"""The format of a log line: JSON that ends with a checksum. The checksum covers the line and the checksum of
the line before, so that changed, lost and reordered lines are detected.

Runs of earlier versions (format 1) have lines that begin with a CRC of their own JSON only. Such runs can be
read; new lines are appended in the present format.
"""

import hashlib
import json
import re
import zlib
from typing import Any

from pydantic import Field

from kernelblaster.records.record import Record

FORMAT = 2
SUM_BYTES = 8
_ENDING = re.compile(rb',"sum":"([0-9a-f]{16})"}$')
_EARLIER = re.compile(rb"^([0-9a-f]{8}) ({.*})$")


class RunEvent(Record):
    """One entry in the log of a run: something that happened or was decided in its search. `number` counts
    from 0; `kind` names the sort of event ("evaluation", "steps"), and `key`, if not empty, is unique among
    those of one kind. `at` is in seconds since 1970, for display only; `after` is in seconds since the
    process opened the log, by a monotonic clock. `data` is what happened, as JSON data. Only the first event
    has `format` and `id`; the id identifies the run, whatever its folder is called."""

    number: int
    at: float
    after: float | None = None
    kind: str
    key: str = ""
    format: int | None = None
    id: str | None = None
    data: dict[str, Any] = Field(default_factory=dict)


def encode(event: RunEvent, before: str) -> tuple[bytes, str]:
    """Returns (the log line of `event` without its newline, the line's checksum). `before` is the checksum of
    the line before it, which the new checksum covers too."""
    text = event.model_dump_json(exclude_none=True).encode()
    own = _chained(text, before)
    return text[:-1] + b',"sum":"' + own.encode() + b'"}', own


def check(line: bytes, before: str) -> tuple[bytes, str] | None:
    """Verifies the checksum of a log line, and returns (the line's JSON, the checksum); None if the line is
    damaged. `before` is the checksum of the line before it, "" for the first line."""
    ending, earlier = _ENDING.search(line), _EARLIER.match(line)
    if ending:
        own, text = ending[1].decode(), line[: ending.start()] + b"}"
        whole = own == _chained(text, before)
    elif earlier:
        own, text = earlier[1].decode(), earlier[2]
        whole = int(own, 16) == zlib.crc32(text)
    else:
        return None
    return (text, own) if whole else None


def strip_sum(line: bytes) -> bytes:
    """Returns the JSON of a log line without its checksum, which is not verified."""
    ending, earlier = _ENDING.search(line), _EARLIER.match(line)
    if ending:
        return line[: ending.start()] + b"}"
    return earlier[2] if earlier else line


def decode(line: bytes, number: int, before: str) -> tuple[RunEvent, str] | None:
    """Returns (the event, the checksum) that a log line holds; None if the line is damaged or is not event
    `number`, counted from 0. `before` is the checksum of the line before it, "" for the first line."""
    checked = check(line, before)
    if checked is None:
        return None
    text, own = checked
    try:
        event = RunEvent.model_validate(json.loads(text))
    except (ValueError, RecursionError):
        return None
    return (event, own) if event.number == number else None


def later_format(line: bytes) -> int | None:
    """Tells whether the first line of a log was written by a later version of KernelBlaster, in a format that
    this one cannot read. Returns that format's number; None if the line can be read."""
    try:
        version = json.loads(line)["format"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return version if isinstance(version, int) and version > FORMAT else None


def _chained(text: bytes, before: str) -> str:
    """The checksum of a log line: a hash of its JSON and of `before`, the checksum of the line before it, so
    that a missing line shows."""
    return hashlib.blake2b(text + before.encode(), digest_size=SUM_BYTES).hexdigest()
