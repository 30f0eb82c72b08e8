"""Starts Python processes (`multiprocessing`, spawn) that are killed when this process ends, each with a pipe
to it."""

import errno
import multiprocessing
import os
import pickle
import signal
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from multiprocessing.reduction import ForkingPickler
from typing import Any

from kernelblaster.keeper import Door
from kernelblaster.processes.collection import collect_as_usual, collect_rarely
from kernelblaster.processes.parent import die_with_parent

_context = multiprocessing.get_context("spawn")


def spawn(
    work: Callable[..., None], *arguments: Any, environment: dict[str, str] | None = None
) -> tuple[SpawnProcess, "Connection[Any, Any]"]:
    """Starts a process that calls `work(connection, *arguments)`. Returns (the process, this end of the
    connection to it). The process is killed when this one ends, ignores Ctrl-C, and can reach the keeper (the
    command's trusted process) if this one can. The variables of `environment` are set in it before anything
    is imported that might read them."""
    here, there = _context.Pipe()
    packed = _Packed((work, there, Door(), *arguments))
    process = _context.Process(target=_enter, args=(packed, environment or {}), daemon=True)
    process.start()
    there.close()
    return process, here


class _Packed:
    """The arguments of a new process, unpickled only by `opened`: unpickling may import modules for long,
    and the process must first arrange to be killed with its parent."""

    def __init__(self, contents: tuple[Any, ...]) -> None:
        self._contents = contents

    def __getstate__(self) -> bytes:
        return bytes(ForkingPickler.dumps(self._contents))

    def __setstate__(self, packed: bytes) -> None:
        self._packed = packed

    def opened(self) -> Any:
        return pickle.loads(self._packed)


def _enter(packed: _Packed, environment: dict[str, str]) -> None:
    """The main function of a spawned process: calls the packed `work(connection, *arguments)` after setting
    `environment`. Ctrl-C is ignored there: only the parent handles it, and then ends its processes."""
    die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ.update(environment)
    collect_rarely()
    work, connection, door, *arguments = packed.opened()
    collect_as_usual()
    door.open()
    try:
        work(connection, *arguments)
    except OSError as error:
        if error.errno != errno.EBADF:
            raise
        os._exit(1)  # code of a task has closed the pipe; the first process notices that this one ends
