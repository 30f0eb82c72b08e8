"""The key keeper, as other processes see it: a process that has the keys of model servers, runs no foreign
code, and makes the calls that need a key. Where none was started, there is nothing to ask.

A message is a JSON object behind its length; each has a connection of its own."""

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
    """The process that has the keys is gone, or does not answer."""


def kept_names() -> frozenset[str]:
    """The environment variables whose keys the keeper has."""
    _, _, names = keeper_address().partition(" ")
    return frozenset(names.split())


def there_is_a_keeper() -> bool:
    return bool(keeper_address())


def seal() -> None:
    """From now on no server gets a key that was not named before. To be called before foreign code runs; a
    keeper that is gone needs no seal."""
    if there_is_a_keeper():
        with suppress(KeeperLost):
            ask({"do": "seal"}, SHORT_S)


def ask(message: dict[str, Any], limit_s: float) -> dict[str, Any]:
    """The keeper's reply."""
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
    data = json.dumps(message).encode()
    connection.sendall(struct.pack("!I", len(data)) + data)


def receive(connection: socket.socket) -> dict[str, Any]:
    """Raises `ValueError` where what comes is no message."""
    (size,) = struct.unpack("!I", _exactly(connection, 4))
    if size > LARGEST_BYTES:
        raise ValueError("a message that is too large")
    message = json.loads(_exactly(connection, size))
    if not isinstance(message, dict):
        raise ValueError("no message")
    return message


def _exactly(connection: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        piece = connection.recv(min(size - len(data), 1 << 16))
        if not piece:
            raise ValueError("it ended")
        data += piece
    return bytes(data)
