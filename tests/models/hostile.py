"""Servers that mean harm: what each sends once it has read a request. `speaks` has the protocol's replies."""

import gzip
import itertools
import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any

from tests.models.server import Anthropic, OpenAI, Says

GOOD = '{"product": 42}'
MEGABYTE = b"x" * (1 << 20)
Behaviour = Callable[[socket.socket, Any], None]


@contextmanager
def hostile(behaviour: Behaviour) -> Iterator[tuple[str, list[bytes]]]:
    """The address of a server that does this to every connection, and the requests it has read."""
    listening = socket.create_server(("127.0.0.1", 0), backlog=50)
    requests: list[bytes] = []

    def serve(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            connection.settimeout(5)
            request = _request(connection)
            requests.append(request)
            speaks = Anthropic if b"/messages" in request.split(b"\r\n")[0] else OpenAI
            behaviour(connection, speaks)

    def accept() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=serve, args=(listening.accept()[0],), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}", requests
    finally:
        with suppress(OSError):
            listening.shutdown(socket.SHUT_RDWR)
        listening.close()


def _request(connection: socket.socket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        data += connection.recv(1 << 16)
    head, _, body = data.partition(b"\r\n\r\n")
    sizes = [
        int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")
    ]
    while sizes and len(body) < sizes[0]:
        body += connection.recv(1 << 16)
    return head + b"\r\n\r\n" + body


def head(status: str = "200 OK", kind: str = "text/event-stream", **headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"content-type: {kind}", "connection: close"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def sends(*pieces: bytes) -> Behaviour:
    def behave(connection: socket.socket, _: Any) -> None:
        for piece in pieces:
            connection.sendall(piece)

    return behave


def endless(start: bytes, piece: Callable[[Any], bytes], pause_s: float = 0.0) -> Behaviour:
    """A beginning, then the same again and again, with pauses that are shorter than the limit on silence."""

    def behave(connection: socket.socket, speaks: Any) -> None:
        connection.sendall(start)
        for _ in itertools.count():
            connection.sendall(piece(speaks))
            time.sleep(pause_s)

    return behave


def reset(*pieces: bytes) -> Behaviour:
    """The connection is torn down, not closed."""

    def behave(connection: socket.socket, _: Any) -> None:
        for piece in pieces:
            connection.sendall(piece)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    return behave


def waits(*pieces: bytes) -> Behaviour:
    def behave(connection: socket.socket, _: Any) -> None:
        for piece in pieces:
            connection.sendall(piece)
        connection.recv(1)

    return behave


def streams(*values: Any) -> Behaviour:
    """A stream of events, each a JSON value or the bytes of one."""
    texts = [value if isinstance(value, bytes) else json.dumps(value).encode() for value in values]
    return sends(head(), *(b"data: " + text + b"\n\n" for text in texts))


def whole(value: Any, **headers: str) -> Behaviour:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return sends(head(kind="application/json", **headers) + data)


def answers(change: Callable[[bytes], bytes]) -> Behaviour:
    """A good answer, its bytes changed on the way."""

    def behave(connection: socket.socket, speaks: Any) -> None:
        body = speaks.start() + speaks.piece(GOOD) + speaks.end(Says(GOOD))
        connection.sendall(head() + change(body))

    return behave


def counts(value: Any) -> Behaviour:
    """A good answer whose numbers of tokens are all this, as JSON."""

    def behave(connection: socket.socket, speaks: Any) -> None:
        names = ("prompt_tokens", "completion_tokens", "input_tokens", "output_tokens")
        usage = ", ".join(f'"{name}": {value}' for name in names)
        if speaks is OpenAI:
            end = OpenAI.chunk([{"index": 0, "delta": {}, "finish_reason": "stop"}])
            last = OpenAI.chunk([], usage=None).replace(b'"usage": null', b'"usage": {%s}' % usage.encode())
        else:
            end = b""
            last = b'data: {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {%s}}\n\n'
            last %= usage.encode()
        connection.sendall(head() + speaks.start() + speaks.piece(GOOD) + end + last)

    return behave


@cache
def bomb() -> bytes:
    """A gigabyte, compressed."""
    return gzip.compress(b" " * (64 << 20), 1) * 16


def choice(**changes: Any) -> dict[str, Any]:
    """One event with what both protocols read, wrong where `changes` say so."""
    delta = {"type": "text_delta", "content": GOOD, "text": GOOD}
    value = {
        "type": "content_block_delta",
        "delta": delta,
        "choices": [{"delta": delta, "finish_reason": "stop"}],
    }
    return {**value, **changes}


def in_choice(**changes: Any) -> dict[str, Any]:
    delta = {"type": "text_delta", **changes}
    return choice(delta=delta, choices=[{"delta": delta, "finish_reason": "stop"}])


def nested(depth: int) -> bytes:
    return b'{"type": ' + b"[" * depth + b"]" * depth + b', "choices": []}'
