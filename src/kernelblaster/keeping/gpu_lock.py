"""Locks a GPU on behalf of a confined process, which may not open the lock file that all users of the machine
share. Used by the keeper, the command's trusted process."""

import socket
from collections.abc import Callable

from kernelblaster.devices.gpu_lock import locked_file
from kernelblaster.keeper import Data, send


def hold_gpu(message: Data, connection: socket.socket, tell: Callable[[str], None]) -> Data:
    """Locks the GPU whose UUID is `message["gpu"]`, sends {} once that is done, and holds it until the other
    end closes `connection`. While another process has the GPU, `tell` is called once with a message for the
    user. Returns {}. Raises KernelBlasterError if the UUID is malformed or the lock file cannot be used."""
    with locked_file(str(message.get("gpu")), tell):
        send(connection, {})
        connection.settimeout(None)
        connection.recv(1)
    return {}
