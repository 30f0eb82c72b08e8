"""Strict JSON for untrusted input, from a server or a file: parsed within limits, or refused with a reason.

Refused are NaN, infinities and numbers that are too large, duplicate keys, unpaired surrogates, text that is
not UTF-8, and documents with more than 64 levels of nesting (DEEPEST) or 64 MiB (LARGEST_BYTES), unless the
caller sets other limits.
"""

import json
import math
from pathlib import Path
from typing import Any

from pydantic import ValidationError

DEEPEST = 64
LARGEST_BYTES = 64 << 20
LARGEST_INTEGER = 1 << 64


class InvalidJson(ValueError):
    """JSON that is refused. The message says why, worded to follow the name of the file or server: `is not
    UTF-8`."""


def parse_json(data: bytes | str, *, deepest: int = DEEPEST, control_characters: bool = False) -> Any:
    """Returns the Python value of the JSON text `data` (str or UTF-8 bytes). `deepest` is the most levels of
    nesting. With `control_characters`, strings may contain unescaped control characters, as language models
    write them. Raises `InvalidJson` if the text is no JSON, is nested deeper, has duplicate keys, NaN,
    infinities or numbers that are too large, or is not valid Unicode."""
    try:
        text = data.decode("utf-8-sig") if isinstance(data, bytes) else data
        value = json.loads(
            text,
            strict=not control_characters,
            object_pairs_hook=_object,
            parse_constant=_constant,
            parse_float=_float,
            parse_int=_integer,
        )
        _check_depth(value, deepest)
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeDecodeError as error:
        raise InvalidJson(f"is not UTF-8 (at byte {error.start})") from error
    except UnicodeEncodeError as error:
        raise InvalidJson("has half a surrogate pair in a string") from error
    except json.JSONDecodeError as error:
        raise InvalidJson(f"is not JSON: {error.msg} at line {error.lineno}, column {error.colno}") from error
    except RecursionError as error:
        raise InvalidJson(f"is nested deeper than {deepest}") from error
    return value


def read_json(path: Path, *, most_bytes: int = LARGEST_BYTES, deepest: int = DEEPEST) -> Any:
    """Reads and parses a JSON file of at most `most_bytes` bytes and `deepest` levels of nesting. Raises
    `OSError` if it cannot be read, `InvalidJson` if it is larger or refused by `parse_json`."""
    return parse_json(read_bounded(path, most_bytes), deepest=deepest)


def read_bounded(path: Path, most_bytes: int = LARGEST_BYTES) -> bytes:
    """Returns the content of the file `path`. Raises `OSError` if it cannot be read, `InvalidJson` if it has
    more than `most_bytes`."""
    with path.open("rb") as file:
        data = file.read(most_bytes + 1)
    if len(data) > most_bytes:
        raise InvalidJson(f"is larger than {most_bytes / 1e6:.0f} MB")
    return data


def first_problem(error: ValidationError) -> str:
    """Returns the field (dotted path) and message of the first error in a pydantic ValidationError, without
    the offending value, which may be secret or long."""
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    words = str(first["msg"]).removeprefix("Value error, ")
    return f"`{'.'.join(str(part) for part in first['loc']) or 'the whole'}`: {words}"


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Called by json.loads for each JSON object with its (key, value) pairs; makes a dict of them. Raises
    InvalidJson for a duplicate key."""
    value = dict(pairs)
    if len(value) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise InvalidJson(f"has the key {twice[:40]!r} twice in one object")
    return value


def _constant(name: str) -> Any:
    """Called by json.loads where a text has NaN or an infinity, which are not JSON: raises InvalidJson."""
    raise InvalidJson(f"has the number {name}, which is none")


def _float(text: str) -> float:
    """Called by json.loads for each number with a fraction or exponent. Raises InvalidJson if it is too large
    for a float."""
    value = float(text)
    if not math.isfinite(value):
        raise InvalidJson(f"has the number {text[:40]}, which is too large")
    return value


def _integer(text: str) -> int:
    """Called by json.loads for each integer. Raises InvalidJson if its magnitude is above LARGEST_INTEGER."""
    if len(text) > 21 or abs(int(text)) > LARGEST_INTEGER:
        raise InvalidJson(f"has the number {text[:40]}, which is too large")
    return int(text)


def _check_depth(value: Any, deepest: int) -> None:
    """Checks how deep lists and objects in a parsed JSON value are nested. Raises InvalidJson if that is more
    than `deepest` levels."""
    level, depth = [value], 0
    while level:
        if depth > deepest:
            raise InvalidJson(f"is nested deeper than {deepest}")
        level = [
            child
            for one in level
            if isinstance(one, dict | list)
            for child in (one.values() if isinstance(one, dict) else one)
        ]
        depth += 1
