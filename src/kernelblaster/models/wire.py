"""What all servers have in common: limits on a call, how a status is to be understood, and that no key
gets into any text."""

import email.utils
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass

from kernelblaster.models.failures import CutOff, Declined, ModelError, NotAllowed, TimedOut, Unavailable

CHARACTERS_A_TOKEN = 12  # few tokens are longer; none of a whole answer's average
SPARE_CHARACTERS = 2_000
NO_CREDIT = ("insufficient_quota", "billing_not_active", "billing_error", "credit balance")
NO_KEY = "none"  # what a server without keys is given as one


@dataclass(frozen=True)
class Limits:
    """How long a call may take, in seconds: to connect, without a word, and as a whole."""

    connect_s: float = 10
    silence_s: float = 180
    call_s: float = 900


class Gathering:
    """The text of one answer as it arrives. It ends when it is far past the output limit: a server that
    ignores the limit is not read to its end."""

    def __init__(self, where: str, output_limit: int, limits: Limits) -> None:
        self._where = where
        self._most = output_limit * CHARACTERS_A_TOKEN + SPARE_CHARACTERS
        self._end = time.monotonic() + limits.call_s
        self._call_s = limits.call_s
        self._pieces: list[str] = []
        self._size = 0

    def add(self, piece: str) -> None:
        self._pieces.append(piece)
        self._size += len(piece)

    def check_time(self) -> None:
        if time.monotonic() > self._end:
            raise TimedOut(f"{self._where}: took longer than {self._call_s:g} s", maybe_charged=True)

    @property
    def too_long(self) -> bool:
        return self._size > self._most

    @property
    def text(self) -> str:
        return "".join(self._pieces)[: self._most]


def failure(where: str, status: int, text: str, headers: Mapping[str, str]) -> ModelError:
    """What an error that the server reported means for the caller."""
    message = f"{where}: HTTP {status}: {text.strip()[:500] or 'no reason given'}"
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


def said(body: object, otherwise: str) -> str:
    """What the body of an error says, for people."""
    error = body.get("error", body) if isinstance(body, dict) else None
    if not isinstance(error, dict):
        return str(body or otherwise)
    parts = [str(error[key]) for key in ("message", "type", "code", "param") if error.get(key)]
    return "; ".join(dict.fromkeys(parts)) or otherwise


def lost(where: str, error: Exception) -> Unavailable:
    """What an error below HTTP means. A server that was never reached has charged nothing."""
    import httpx2

    cause = error if isinstance(error, httpx2.HTTPError) else error.__cause__
    if isinstance(cause, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.PoolTimeout):
        return Unavailable(f"{where}: cannot connect. Is the server running, and the address right?")
    if isinstance(cause, httpx2.TimeoutException):
        return TimedOut(f"{where}: no word for too long", maybe_charged=True)
    return CutOff(f"{where}: the connection ended before the answer did", maybe_charged=True)


def hinted_wait(headers: Mapping[str, str]) -> float | None:
    """How long the server wants us to wait, in seconds: `retry-after-ms`, or `retry-after` as a number or
    as a date."""
    for name, factor in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        try:
            wait = float(headers[name]) * factor
        except (KeyError, ValueError):
            continue
        if math.isfinite(wait) and wait >= 0:
            return wait
    date = email.utils.parsedate_tz(headers.get("retry-after", ""))
    return None if date is None else max(0.0, email.utils.mktime_tz(date) - time.time())


def scrubbed(text: str, key: str) -> str:
    """The text without the key, should a server have repeated it."""
    return text.replace(key, "[key]") if key and key != NO_KEY else text
