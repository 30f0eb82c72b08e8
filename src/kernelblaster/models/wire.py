"""What the clients of all model servers share: limits, the errors that HTTP status codes mean, and the
removal of keys from texts."""

import email.utils
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from kernelblaster.models.failures import CutOff, Declined, ModelError, NotAllowed, Unavailable
from kernelblaster.strict_json import InvalidJson, parse_json

CHARACTERS_A_TOKEN = 12  # few tokens are longer; none of a whole answer's average
SPARE_CHARACTERS = 2_000
NO_CREDIT = ("insufficient_quota", "billing_not_active", "billing_error", "credit balance")
NO_KEY = "none"  # what a server without keys is given as one
LONGEST_HINT_S = 86_400.0


@dataclass(frozen=True)
class CallLimits:
    """Limits of one call to a server. Seconds: `connect_s` to connect, `silence_s` without a byte received,
    `call_s` for the whole call. Bytes, after decompression: `body_bytes` of the whole reply, `document_bytes`
    of one JSON document in it."""

    connect_s: float = 10
    silence_s: float = 180
    call_s: float = 900
    body_bytes: int = 64 << 20
    document_bytes: int = 8 << 20


class Gathering:
    """Collects the text of one answer as its pieces arrive, in case the server ignores the limit of
    `output_limit` tokens. `too_long` becomes True once the text has more than 12 letters for each token of
    the limit and 2000 more; `text` is cut there."""

    def __init__(self, output_limit: int) -> None:
        self._most = output_limit * CHARACTERS_A_TOKEN + SPARE_CHARACTERS
        self._pieces: list[str] = []
        self._size = 0

    def add(self, piece: str) -> None:
        self._pieces.append(piece)
        self._size += len(piece)

    @property
    def too_long(self) -> bool:
        return self._size > self._most

    @property
    def text(self) -> str:
        return "".join(self._pieces)[: self._most]


def failure(where: str, status: int, text: str, headers: Mapping[str, str]) -> ModelError:
    """Returns the exception for an HTTP status other than 200: `Unavailable` if asking again may help,
    `NotAllowed` for problems with the key or credit, `CutOff` for a status below 300, else `Declined`. `text`
    is what the server says of the error, and `where` the name of the server in error messages. `headers` may
    say how long to wait."""
    message = f"{where}: HTTP {status}: {text.strip()[:500] or 'no reason given'}"
    if 300 <= status < 400:
        return Declined(
            f"{where}: HTTP {status}: redirects to {_host(headers)}. Redirects are not followed, so that no "
            "other server gets the key; give the right address."
        )
    if status < 400:
        return CutOff(message, maybe_charged=True)
    if status in (401, 403):
        return NotAllowed(f"{message}. Check the key in the environment.")
    if status == 402 or any(word in text for word in NO_CREDIT):
        return NotAllowed(f"{message}. The account has no credit left.")
    passing = status in (408, 409, 425, 429) or status >= 500
    if passing and headers.get("x-should-retry") != "false":
        return Unavailable(message, wait_s=hinted_wait(headers))
    return Declined(message)


def _host(headers: Mapping[str, str]) -> str:
    """The host that a redirect leads to, by its headers, for a message; "another page" or "nowhere" if they
    name none."""
    try:
        return urlsplit(headers.get("location", "")).hostname or "another page"
    except ValueError:
        return "nowhere"


def complaint(body: bytes) -> str:
    """Returns the error message in the body of an HTTP error, for people: from the fields of the JSON, or the
    whole body as text if it is no JSON."""
    try:
        return said(parse_json(body), "")
    except InvalidJson:
        return body.decode(errors="replace")


def said(body: object, otherwise: str) -> str:
    """Returns what a server says about an error, as text for people. `body` is the parsed JSON of its reply;
    `otherwise` is returned if `body` says nothing."""
    error = body.get("error", body) if isinstance(body, dict) else None
    if not isinstance(error, dict):
        return str(body or otherwise)
    parts = [str(error[key]) for key in ("message", "type", "code", "param") if error.get(key)]
    return "; ".join(dict.fromkeys(parts)) or otherwise


def hinted_wait(headers: Mapping[str, str]) -> float | None:
    """Returns how many seconds the server asks to wait, at most a day: from the header `retry-after-ms`, or
    from `retry-after` as a number of seconds or a date. None if neither is valid."""
    for name, factor in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        try:
            wait = float(headers[name]) * factor
        except (KeyError, ValueError):
            continue
        if math.isfinite(wait) and wait >= 0:
            return min(wait, LONGEST_HINT_S)
    try:
        date = email.utils.parsedate_tz(headers.get("retry-after", ""))
        wait = 0.0 if date is None else email.utils.mktime_tz(date) - time.time()
    except (ValueError, OverflowError, TypeError, IndexError):
        return None
    return None if date is None else min(max(0.0, wait), LONGEST_HINT_S)


def scrubbed(text: str, key: str) -> str:
    """Returns the text with `[key]` in place of the API key `key` wherever that occurs, in case a server
    repeats it."""
    return text.replace(key, "[key]") if key and key != NO_KEY else text
