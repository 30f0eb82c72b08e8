"""Holds a GPU for a confined command: the lock is a file that all users of the machine share."""

import socket
from collections.abc import Callable

from kernelblaster.devices.gpu_lock import locked_file
from kernelblaster.keeper import Data, send


def hold_gpu(message: Data, connection: socket.socket, tell: Callable[[str], None]) -> Data:
    """Lock the GPU that a message names until its connection is closed; `tell` is called while another
    process has it. Raises KernelBlasterError."""
    with locked_file(str(message.get("gpu")), tell):
        send(connection, {})
        connection.settimeout(None)
        connection.recv(1)
    return {}
