"""Makes one HTTP call with limits on time and bytes, to a server that may be slow, endless or malicious.

Redirects are not followed, so that no other server gets the key. Headers are limited to 100 KB by the HTTP
library."""

import contextlib
import socket
import ssl
import threading
import time
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import httpx2

from kernelblaster.models.failures import CallTimedOut, CutOff, ModelError, Unavailable
from kernelblaster.models.wire import CallLimits

ERROR_BYTES = 64 << 10  # that are read of what an error says
DECOMPRESSED_AT_ONCE = 1 << 20


class Deadline:
    """Ends an HTTP call when `limits.call_s` seconds have passed since this object was made, whatever the
    call is waiting for, by shutting down its socket. `where` is the name of the server in error messages."""

    def __init__(self, where: str, limits: CallLimits) -> None:
        self._where = where
        self._call_s = limits.call_s
        self._end = time.monotonic() + limits.call_s
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._timer = threading.Timer(limits.call_s, self._shut_down)
        self._timer.daemon = True
        self._timer.start()

    @property
    def passed(self) -> bool:
        return time.monotonic() >= self._end

    def check(self) -> None:
        """Raises CallTimedOut if the call has already taken longer than it may."""
        if self.passed:
            raise self.failure

    @property
    def failure(self) -> CallTimedOut:
        """The exception to raise for a call that was ended because it took longer than `limits.call_s`."""
        return CallTimedOut(f"{self._where}: took longer than {self._call_s:g} s", maybe_charged=True)

    def watch(self, event: str, about: Mapping[str, Any]) -> None:
        """A callback, which the HTTP library calls whenever something has happened in the call. `event` is
        the name of what happened, `about` its details by name. When a connection was made, its socket is
        remembered, so that it can be shut down at the deadline; other events are ignored."""
        if event.endswith(("connect_tcp.complete", "start_tls.complete")):
            with self._lock:
                self._socket = about["return_value"].get_extra_info("socket")
            if self.passed:
                self._shut_down()

    def cancel(self) -> None:
        """Stops watching a call that has ended: its socket will not be shut down any more."""
        self._timer.cancel()
        with self._lock:
            self._socket = None

    def _shut_down(self) -> None:
        with self._lock, contextlib.suppress(OSError):
            if self._socket is not None:
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)


@dataclass(frozen=True)
class Response:
    """An HTTP response whose status and headers (names in lower case) have arrived. Its body can be read
    once, by `document`, `complaint` or `events`. `where` is the name of the server in error messages. Reading
    raises CutOff if the body is longer than the limits allow, and CallTimedOut if it takes too long."""

    where: str
    status: int
    headers: Mapping[str, str]
    _response: httpx2.Response
    _deadline: Deadline
    _limits: CallLimits

    @property
    def kind(self) -> str:
        """The media type of the body, such as `application/json`, as the server's headers give it; empty if
        they do not."""
        return self.headers.get("content-type", "")

    def document(self) -> bytes:
        """Reads and returns the whole body, which should be a single JSON document. Raises CutOff if it has
        more than `document_bytes` of the limits (8 MiB)."""
        return self._all(self._limits.document_bytes)

    def complaint(self) -> bytes:
        """Reads and returns the first 64 KiB (ERROR_BYTES) of the body, for the text of an error. If the body
        is too long or cannot be decompressed, returns what could be read before."""
        beginning = bytearray()
        with contextlib.suppress(CutOff):
            for piece in self._pieces():
                beginning += piece
                if len(beginning) >= ERROR_BYTES:
                    break
        return bytes(beginning[:ERROR_BYTES])

    def events(self) -> Iterator[tuple[str, bytes]]:
        """Yields the server-sent events of the body as (name, data), each as soon as it has arrived. Comments
        are skipped."""
        name, data = "", bytearray()
        for line in self._lines():
            if not line:
                if data:
                    yield name, bytes(data[:-1])
                name, data = "", bytearray()
            elif line.startswith(b"data:"):
                data += line[5:].removeprefix(b" ") + b"\n"
                self._bound(len(data), self._limits.document_bytes)
            elif line.startswith(b"event:"):
                name = line[6:].strip()[:80].decode(errors="replace")

    def _lines(self) -> Iterator[bytes]:
        """Yields the lines of the body, without line ends, as they arrive; the last one may be empty."""
        rest = bytearray()
        for piece in self._pieces():
            rest += piece
            if b"\n" in piece:
                *whole, rest = rest.split(b"\n")
                yield from (bytes(line).rstrip(b"\r") for line in whole)
            self._bound(len(rest), self._limits.document_bytes)
        yield bytes(rest)

    def _all(self, most: int) -> bytes:
        """Reads the body to its end. Raises CutOff as soon as it has more than `most` bytes."""
        found = bytearray()
        for piece in self._pieces():
            found += piece
            self._bound(len(found), most)
        return bytes(found)

    def _pieces(self) -> Iterator[bytes]:
        """The body, decompressed, in pieces as they arrive. Raises CutOff above `body_bytes` of the limits,
        CallTimedOut after the deadline."""
        size = 0
        for piece in _decompressed(self.where, self.headers, self._response.iter_raw()):
            self._deadline.check()
            size += len(piece)
            self._bound(size, self._limits.body_bytes)
            yield piece
        self._deadline.check()

    def _bound(self, size: int, most: int) -> None:
        """Checks a size that the server determines. Raises CutOff if `size` bytes are more than `most`."""
        if size > most:
            raise CutOff(f"{self.where}: sent more than {most / 1e6:g} MB", maybe_charged=True)


@contextlib.contextmanager
def calling(
    where: str, url: str, headers: Mapping[str, str], body: bytes | None, limits: CallLimits
) -> Iterator[Response]:
    """A context that makes an HTTP call and gives its response: a POST of `body`, or a GET if that is None.
    `where` is the name of the server in error messages. Network errors, also those while the body is read
    within the context, are raised as `ModelError`. `headers` are those of the request, `limits` those on time
    and bytes."""
    deadline = Deadline(where, limits)
    problem: ModelError
    try:
        with _client(limits) as client:
            request = client.build_request(
                "GET" if body is None else "POST",
                url,
                content=body,
                headers={"content-type": "application/json", "accept-encoding": "identity", **headers},
                extensions={"trace": deadline.watch},
            )
            response = client.send(request, stream=True)
            try:
                lowered = {name.lower(): value for name, value in response.headers.items()}
                yield Response(where, response.status_code, lowered, response, deadline, limits)
            finally:
                response.close()
            return
    except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError, OSError, ValueError) as error:
        problem = deadline.failure if deadline.passed else _lost(where, error, limits)
    finally:
        deadline.cancel()
    raise problem


def _client(limits: CallLimits) -> httpx2.Client:
    """A new HTTP client with the time limits of `limits`, for one call only, so that a broken connection
    affects no other."""
    connect_s, silence_s = min(limits.connect_s, limits.call_s), min(limits.silence_s, limits.call_s)
    return httpx2.Client(
        verify=_certificates(),
        timeout=httpx2.Timeout(silence_s, connect=connect_s),
        follow_redirects=False,
        limits=httpx2.Limits(max_keepalive_connections=0),
    )


@cache
def _certificates() -> ssl.SSLContext:
    """The trusted certificates; read once, since that takes as long as a short call."""
    return httpx2.create_ssl_context()


def _lost(where: str, error: Exception, limits: CallLimits) -> Unavailable:
    """The exception to raise for a network failure (`error`) at the server `where`, in a call with these
    limits. Its `maybe_charged` says whether the server may charge for the call (not if it was never
    reached)."""
    if isinstance(
        error, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.PoolTimeout | httpx2.ProxyError
    ):
        return Unavailable(f"{where}: cannot connect. Is the server running, and the address right?")
    if isinstance(error, httpx2.TimeoutException):
        return CallTimedOut(f"{where}: no word for {limits.silence_s:g} s", maybe_charged=True)
    if isinstance(error, httpx2.RemoteProtocolError):
        return CutOff(f"{where}: what came is not HTTP, or it ended too early", maybe_charged=True)
    return CutOff(f"{where}: the connection ended before the answer did", maybe_charged=True)


def _decompressed(where: str, headers: Mapping[str, str], pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yields a response's body decompressed, in pieces of bounded size, from the `pieces` received; `headers`
    name the coding. Compression is not requested, but gzip and deflate are handled. Raises CutOff, which
    names the server `where`, for other codings and for bodies that cannot be decompressed."""
    coding = headers.get("content-encoding", "identity").strip().lower()
    if coding in ("", "identity"):
        yield from pieces
        return
    if coding not in ("gzip", "x-gzip", "deflate"):
        raise CutOff(f"{where}: sent a body compressed as {coding[:40]!r}, unasked", maybe_charged=True)
    decompressor = zlib.decompressobj(wbits=47)
    try:
        for piece in pieces:
            yield decompressor.decompress(piece, DECOMPRESSED_AT_ONCE)
            while decompressor.unconsumed_tail:
                yield decompressor.decompress(decompressor.unconsumed_tail, DECOMPRESSED_AT_ONCE)
    except zlib.error as error:
        raise CutOff(f"{where}: sent a body that cannot be decompressed", maybe_charged=True) from error
