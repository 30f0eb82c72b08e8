"""Client of the key keeper, a process that holds the API keys of model servers, runs no code of others, and
makes the calls that need a key. Without one, `is_running` is false.

Protocol: one connection for each message; a message is a 4-byte big-endian length and a JSON object."""

import json
import socket
import struct
from contextlib import suppress
from typing import Any

from kernelblaster.errors import KernelBlasterError
from kernelblaster.settings import keeper_address

LARGEST_BYTES = 64 << 20
SHORT_S = 30.0


class KeeperLost(KernelBlasterError):
    """The key keeper's process has ended, or does not answer in time."""


def key_names() -> frozenset[str]:
    """The names of the environment variables (like OPENAI_API_KEY) whose keys the keeper holds; empty without
    a keeper."""
    _, _, names = keeper_address().partition(" ")
    return frozenset(names.split())


def is_running() -> bool:
    """Whether this process was started with a key keeper. It may have ended since: then `ask` raises
    KeeperLost."""
    return bool(keeper_address())


def seal() -> None:
    """Forbid the keeper to send keys to servers that were not named to it before. Called before candidates or
    other code of others run. Does nothing if there is no keeper, or it has ended."""
    if is_running():
        with suppress(KeeperLost):
            ask({"do": "seal"}, SHORT_S)


def ask(message: dict[str, Any], limit_s: float) -> dict[str, Any]:
    """Send a message to the keeper and return its reply. Raises `KeeperLost` if none comes within `limit_s`
    seconds."""
    name = keeper_address().partition(" ")[0]
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(limit_s)
            connection.connect(b"\0" + name.encode())
            send(connection, message)
            return receive(connection)
    except (OSError, ValueError) as error:
        raise KeeperLost(
            f"the process that keeps the keys does not answer ({error}); start the command again."
        ) from error


def send(connection: socket.socket, message: dict[str, Any]) -> None:
    """Write one message to a connected socket: a 4-byte big-endian length, then JSON."""
    data = json.dumps(message).encode()
    connection.sendall(struct.pack("!I", len(data)) + data)


def receive(connection: socket.socket) -> dict[str, Any]:
    """Read one message from a connected socket. Raises `ValueError` if the connection ends early, or if what
    arrives is no JSON object or is larger than LARGEST_BYTES."""
    (size,) = struct.unpack("!I", _exactly(connection, 4))
    if size > LARGEST_BYTES:
        raise ValueError("a message that is too large")
    message = json.loads(_exactly(connection, size))
    if not isinstance(message, dict):
        raise ValueError("no message")
    return message


def _exactly(connection: socket.socket, size: int) -> bytes:
    """Read exactly `size` bytes. Raises ValueError if the connection ends before."""
    data = bytearray()
    while len(data) < size:
        piece = connection.recv(min(size - len(data), 1 << 16))
        if not piece:
            raise ValueError("it ended")
        data += piece
    return bytes(data)
