"""The main loop of the keeper, the command's trusted process: takes connections from the confined processes
and answers their JSON messages (see `kernelblaster.keeper` for the protocol)."""

import json
import os
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from kernelblaster.errors import KernelBlasterError
from kernelblaster.keeper import Data, receive, send
from kernelblaster.keeping.gpu_lock import hold_gpu
from kernelblaster.keeping.named import NamedThings
from kernelblaster.shortage import shortage

MESSAGE_S = 60.0  # to get a message across; what it asks for has its own limits
AT_ONCE = 64  # connections; more wait
FILES = 4  # descriptors in one message, of which one is meant


def keep(door: socket.socket, hidden: int) -> None:
    """The main loop of the keeper (the command's trusted process). Each message on the socket `door` carries
    a new connection, on which one request is answered. Ends when all processes that hold the other end of
    `door` have ended.

    `hidden` is the descriptor of a JSON file with what the command removed from itself at its start
    (`__main__.hide`); -1 if there is none. These are (1) API keys, (2) database URLs with passwords, and (3)
    environment variables that tasks do not need, which are set again in this process.
    """
    if hidden >= 0:
        with os.fdopen(hidden, "rb") as file:
            file.seek(0)
            found = json.loads(file.read())
    else:
        found = {"keys": {}, "addresses": {}, "variables": {}}
    os.environ.update(found["variables"])
    named = NamedThings(found["keys"], found["addresses"], found["variables"])
    places = threading.BoundedSemaphore(AT_ONCE)
    while True:
        data, handles, _, _ = socket.recv_fds(door, 1, FILES)
        if not data:
            return
        for handle in handles:
            places.acquire()
            connection = socket.socket(fileno=handle)
            threading.Thread(target=_serve, args=(connection, named, places), daemon=True).start()


def _serve(connection: socket.socket, named: NamedThings, places: threading.BoundedSemaphore) -> None:
    """Answers the one message of a connection and closes it; a broken connection or message is ignored.
    `named` is what the user named. At the end, releases one of `places`, a semaphore that limits how many
    connections are served at once."""
    try:
        with connection, suppress(OSError, ValueError):
            connection.settimeout(MESSAGE_S)
            message = receive(connection)
            send(connection, _reply(message, named, connection))
    finally:
        places.release()


def _reply(message: Data, named: NamedThings, connection: socket.socket) -> Data:
    """The reply of the keeper (the command's process that has keys and files) to a message, as JSON data:
    what the action `message["do"]` returns, or a `failure` if that action is not known or raises. `named` is
    what the user named and may be used; `connection` is for actions that last."""

    def tell(progress: str) -> None:
        send(connection, {"progress": progress})

    calls: dict[str, Callable[[], Data]] = {
        "seal": named.seal,
        "claim": lambda: named.claim(message),
        "environment": named.environment,
        "answer": lambda: named.call(message),
        "context": lambda: named.call(message),
        "knowledge": lambda: named.knowledge(message),
        "write": lambda: named.write(message),
        "build": lambda: _build(message, tell),
        "hold": lambda: hold_gpu(message, connection, tell),
    }
    try:
        call = calls.get(str(message.get("do")))
        return (
            call()
            if call
            else failure("NotAllowed", "the keeper was asked for something that it does not do.")
        )
    except KernelBlasterError as error:
        return failure(type(error).__name__, str(error))
    except Exception as error:  # of this program: told, and the keeper goes on
        words = shortage(error) or f"internal error of the keeper: {error!r}"
        return failure("KernelBlasterError", words)


def _build(message: Data, tell: Callable[[str], None]) -> Data:
    from kernelblaster.keeping.builds import build  # slow to import, and rarely needed

    return build(message, tell)


def failure(kind: str, words: str) -> dict[str, Any]:
    """The answer to a request that failed, as JSON data; the process that sent the request raises it as an
    exception. `kind` is the name of the exception's class, `words` its message."""
    return {"failure": {"kind": kind, "message": words}}
