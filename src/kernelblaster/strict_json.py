"""JSON from outside, from a server or in a file: read within limits, or refused with a reason.

Refused are NaN, infinities and other numbers that nothing here could mean, a key that is there twice,
half a surrogate pair, what is not UTF-8, and what is nested too deep or simply too large."""

import json
import math
from pathlib import Path
from typing import Any

from pydantic import ValidationError

DEEPEST = 64
LARGEST_BYTES = 64 << 20
LARGEST_INTEGER = 1 << 64


class InvalidJson(ValueError):
    """The message is what is wrong, to stand behind the name of what was read: `is not UTF-8`."""


def parse_json(data: bytes | str, *, deepest: int = DEEPEST, control_characters: bool = False) -> Any:
    """The value of a JSON text. `control_characters` may be in strings, as models write them."""
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
    """The value in a file. Raises `OSError` and `Unreadable`."""
    return parse_json(read_bounded(path, most_bytes), deepest=deepest)


def read_bounded(path: Path, most_bytes: int = LARGEST_BYTES) -> bytes:
    """A file's bytes, if there are not too many. Raises `OSError` and `Unreadable`."""
    with path.open("rb") as file:
        data = file.read(most_bytes + 1)
    if len(data) > most_bytes:
        raise InvalidJson(f"is larger than {most_bytes / 1e6:.0f} MB")
    return data


def first_problem(error: ValidationError) -> str:
    """Where it does not fit and why, without the value."""
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    return f"`{'.'.join(str(part) for part in first['loc']) or 'the whole'}`: {first['msg']}"


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise InvalidJson(f"has the key {twice[:40]!r} twice in one object")
    return found


def _constant(name: str) -> Any:
    raise InvalidJson(f"has the number {name}, which is none")


def _float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise InvalidJson(f"has the number {text[:40]}, which is too large")
    return value


def _integer(text: str) -> int:
    if len(text) > 21 or abs(int(text)) > LARGEST_INTEGER:
        raise InvalidJson(f"has the number {text[:40]}, which is too large")
    return int(text)


def _check_depth(value: Any, deepest: int) -> None:
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
