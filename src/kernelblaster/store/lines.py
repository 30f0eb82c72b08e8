"""How an event is written: one line of JSON that ends with a checksum of itself and of the line before, so
that a line that was changed, lost or moved is found.

Runs of earlier versions have a checksum before the JSON, of that line alone. They are read, and gone on with
in the present format.
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
    """Something that happened in a run. `key` tells events of one kind apart. `at` is in seconds since 1970
    and has no part in anything but display; `after` is in seconds since the process began to write, by a
    clock that nobody sets. Only the first event has a `format` and an `id`, which is the run's own, whatever
    its folder is called."""

    number: int
    at: float
    after: float | None = None
    kind: str
    key: str = ""
    format: int | None = None
    id: str | None = None
    data: dict[str, Any] = Field(default_factory=dict)


def written(event: RunEvent, before: str) -> tuple[bytes, str]:
    """The line, without its end, and its checksum; `before` is that of the line before it."""
    text = event.model_dump_json(exclude_none=True).encode()
    own = _chained(text, before)
    return text[:-1] + b',"sum":"' + own.encode() + b'"}', own


def read(line: bytes, number: int, before: str) -> tuple[RunEvent, str] | None:
    """The event in a line, and its checksum; None where the line is not what was written."""
    ending, earlier = _ENDING.search(line), _EARLIER.match(line)
    if ending:
        own, text = ending[1].decode(), line[: ending.start()] + b"}"
        whole = own == _chained(text, before)
    elif earlier:
        own, text = earlier[1].decode(), earlier[2]
        whole = int(own, 16) == zlib.crc32(text)
    else:
        return None
    if not whole:
        return None
    try:
        event = RunEvent.model_validate(json.loads(text))
    except ValueError:
        return None
    return (event, own) if event.number == number else None


def later_format(line: bytes) -> int | None:
    """The format that a first line says it has, where that is one this version does not know."""
    try:
        found = json.loads(line)["format"]
    except (ValueError, KeyError, TypeError):
        return None
    return found if isinstance(found, int) and found > FORMAT else None


def _chained(text: bytes, before: str) -> str:
    return hashlib.blake2b(text + before.encode(), digest_size=SUM_BYTES).hexdigest()
