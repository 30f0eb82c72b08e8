"""A real HTTP server on loopback that speaks both protocols and answers from a script, faults included."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

USAGE = (100, 20)  # tokens in and out of every answer, 40 of those in from the prompt cache
CACHED = 40


@dataclass(frozen=True)
class Status:
    """An error status, with headers and a message."""

    code: int
    message: str = "scripted"
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Says:
    """An answer, sent whole or in pieces as it was asked for."""

    text: str
    stop: str = "stop"
    count_tokens: bool = True
    refusal: bool = False


@dataclass(frozen=True)
class Hangs:
    seconds: float


@dataclass(frozen=True)
class Drips:
    """A piece of an answer every `every_s`, without an end."""

    every_s: float


@dataclass(frozen=True)
class Cut:
    """The connection ends in the middle of an answer, or before it."""

    after_text: bool = True


@dataclass(frozen=True)
class Raw:
    """Bytes as they are, as the body of a 200."""

    body: bytes
    kind: str = "application/json"


Action = Status | Says | Hangs | Drips | Cut | Raw


class Script:
    """What the server does, call by call (the last action again and again), and what it was sent."""

    def __init__(self, *actions: Action | Callable[[dict[str, Any]], Action]) -> None:
        self.actions = actions
        self.calls: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.busy = 0
        self.most_busy = 0
        self.lock = threading.Lock()

    def next(self, body: dict[str, Any], headers: dict[str, str]) -> Action:
        with self.lock:
            number = len(self.calls)
            self.calls.append(body)
            self.headers.append(headers)
        action = self.actions[min(number, len(self.actions) - 1)]
        return action if not callable(action) else action(body)


@contextmanager
def serving(script: Script) -> Iterator[str]:
    """The address of the server, without `/v1`."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def do_GET(self) -> None:
            if self.path.startswith("/v1/models/"):
                name = self.path.rsplit("/", 1)[-1]
                told = {"id": name, "type": "model", "max_input_tokens": 200_000, "display_name": name}
                return self._send({**told, "created_at": "2026-01-01T00:00:00Z", "lifecycle": "active"})
            listed = [{"id": "m", "object": "model", "created": 0, "owned_by": "x", "max_model_len": 16_384}]
            return self._send({"object": "list", "data": listed})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            with script.lock:
                script.busy += 1
                script.most_busy = max(script.most_busy, script.busy)
            try:
                self._act(script.next(body, dict(self.headers)), body)
            except (BrokenPipeError, ConnectionResetError):
                pass
            finally:
                with script.lock:
                    script.busy -= 1

        def _act(self, action: Action, body: dict[str, Any]) -> None:
            speaks = Anthropic if self.path.endswith("/messages") else OpenAI
            match action:
                case Status(code, message, headers):
                    self._send(speaks.error(message), code, headers)
                case Hangs(seconds):
                    time.sleep(seconds)
                    self.close_connection = True
                case Drips(every_s):
                    self._begin()
                    while True:
                        self._chunk(speaks.piece("x"))
                        time.sleep(every_s)
                case Cut(after_text):
                    if after_text:
                        self._begin()
                        self._chunk(speaks.start() + speaks.piece('{"product": '))
                    self.close_connection = True
                case Raw(data, kind):
                    self.send_response(200)
                    self.send_header("content-type", kind)
                    self.send_header("content-length", str(len(data)))
                    self.end_headers()
                    self.wfile.write(data)
                case Says() if body.get("stream"):
                    self._begin()
                    self._chunk(speaks.start())
                    for at in range(0, len(action.text), 4000):
                        self._chunk(speaks.piece(action.text[at : at + 4000], refusal=action.refusal))
                    self._chunk(speaks.end(action))
                    self._chunk(b"")
                case Says():
                    self._send(speaks.whole(action))

        def _send(self, value: object, code: int = 200, headers: dict[str, str] | None = None) -> None:
            data = json.dumps(value).encode()
            self.send_response(code)
            for name, text in {"content-type": "application/json", **(headers or {})}.items():
                self.send_header(name, text)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def _begin(self) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()

        def _chunk(self, data: bytes) -> None:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
            self.wfile.flush()

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


def event(value: object, name: str | None = None) -> bytes:
    return (f"event: {name}\n" if name else "").encode() + b"data: " + json.dumps(value).encode() + b"\n\n"


OPENAI_COUNTS = {
    "prompt_tokens": USAGE[0],
    "completion_tokens": USAGE[1],
    "total_tokens": sum(USAGE),
    "prompt_tokens_details": {"cached_tokens": CACHED},
}
ANTHROPIC_STOPS = {"stop": "end_turn", "length": "max_tokens", "content_filter": "refusal"}


class OpenAI:
    @staticmethod
    def error(message: str) -> object:
        return {"error": {"message": message, "type": "scripted"}}

    @staticmethod
    def chunk(choices: list[Any], **more: Any) -> bytes:
        kind = {"id": "c", "object": "chat.completion.chunk", "created": 0, "model": "m"}
        return event({**kind, "choices": choices, **more})

    @classmethod
    def start(cls) -> bytes:
        return cls.chunk([{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}])

    @classmethod
    def piece(cls, text: str, refusal: bool = False) -> bytes:
        delta = {"refusal" if refusal else "content": text}
        return cls.chunk([{"index": 0, "delta": delta, "finish_reason": None}])

    @classmethod
    def end(cls, says: Says) -> bytes:
        last = cls.chunk([{"index": 0, "delta": {}, "finish_reason": says.stop}])
        counts = cls.chunk([], usage=OPENAI_COUNTS) if says.count_tokens else b""
        return last + counts + b"data: [DONE]\n\n"

    @classmethod
    def whole(cls, says: Says) -> object:
        said = {"refusal": says.text} if says.refusal else {"content": says.text}
        message = {"role": "assistant", "content": None, **said}
        choice = {"index": 0, "message": message, "finish_reason": says.stop}
        counts = {"usage": OPENAI_COUNTS} if says.count_tokens else {}
        kind = {"id": "c", "object": "chat.completion", "created": 0, "model": "m"}
        return {**kind, "choices": [choice], **counts}


class Anthropic:
    @staticmethod
    def error(message: str) -> object:
        return {"type": "error", "error": {"type": "scripted", "message": message}}

    @staticmethod
    def start() -> bytes:
        usage = {
            "input_tokens": USAGE[0] - CACHED,
            "cache_read_input_tokens": CACHED,
            "cache_creation_input_tokens": 0,
            "output_tokens": 1,
        }
        message = {"id": "m", "type": "message", "role": "assistant", "content": [], "model": "m"}
        block = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
        begun = {"type": "message_start", "message": {**message, "stop_reason": None, "usage": usage}}
        return event(begun, "message_start") + event(block, "content_block_start")

    @staticmethod
    def piece(text: str, refusal: bool = False) -> bytes:
        delta = {"type": "text_delta", "text": text}
        return event({"type": "content_block_delta", "index": 0, "delta": delta}, "content_block_delta")

    @classmethod
    def end(cls, says: Says) -> bytes:
        reason = "refusal" if says.refusal else ANTHROPIC_STOPS[says.stop]
        delta = {"type": "message_delta", "delta": {"stop_reason": reason}}
        done = event({**delta, "usage": {"output_tokens": USAGE[1]}}, "message_delta")
        return (
            event({"type": "content_block_stop", "index": 0}, "content_block_stop")
            + done
            + event({"type": "message_stop"}, "message_stop")
        )

    @staticmethod
    def whole(says: Says) -> object:
        raise AssertionError("streaming is always asked for")
