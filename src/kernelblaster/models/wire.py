"""What all servers have in common: limits on a call, how a status is to be understood, and that no key
gets into any text."""

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
    """How long a call may take, in seconds: to connect, without a word, and as a whole; and how many bytes
    its body may have, and one JSON document in it. Bytes are counted after decompression."""

    connect_s: float = 10
    silence_s: float = 180
    call_s: float = 900
    body_bytes: int = 64 << 20
    document_bytes: int = 8 << 20


class Gathering:
    """The text of one answer as it arrives. It ends when it is far past the output limit: a server that
    ignores the limit is not read to its end."""

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
    """What an error that the server reported means for the caller."""
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
    try:
        return urlsplit(headers.get("location", "")).hostname or "another page"
    except ValueError:
        return "nowhere"


def complaint(body: bytes) -> str:
    """What the body of an error says, for people."""
    try:
        return said(parse_json(body), "")
    except InvalidJson:
        return body.decode(errors="replace")


def said(body: object, otherwise: str) -> str:
    """As `complaint`, of a body that was parsed."""
    error = body.get("error", body) if isinstance(body, dict) else None
    if not isinstance(error, dict):
        return str(body or otherwise)
    parts = [str(error[key]) for key in ("message", "type", "code", "param") if error.get(key)]
    return "; ".join(dict.fromkeys(parts)) or otherwise


def hinted_wait(headers: Mapping[str, str]) -> float | None:
    """How long the server wants us to wait, in seconds, a day at most: `retry-after-ms`, or `retry-after`
    as a number or as a date. None where it says nothing that can be."""
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
    """The text without the key, should a server have repeated it."""
    return text.replace(key, "[key]") if key and key != NO_KEY else text
