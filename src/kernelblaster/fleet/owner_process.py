"""`ProcessOwner`: the owner of a device as a process of this machine, without Ray."""

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from multiprocessing.connection import Connection
from typing import Any

from kernelblaster.devices.player_process import ended
from kernelblaster.errors import DeviceLost
from kernelblaster.fleet.device_owner import Compiled, DeviceOwner
from kernelblaster.fleet.owner import OwnerLost
from kernelblaster.fleet.requests import OwnedKind, Request
from kernelblaster.processes.spawned import spawn
from kernelblaster.settings import VISIBLE_GPUS

ENDING_S = 5.0  # seconds that a process may take to end by itself


class ProcessOwner:
    """An `Owner` (a process that has a device) of the `kind` "cuda" or "emulated" on this machine. It is
    started when this object is made. `name` is for messages. `gpus` becomes that process's
    CUDA_VISIBLE_DEVICES: one GPU, or "" for a PTX machine. None: it has the same value as in this process."""

    def __init__(self, kind: OwnedKind, name: str, gpus: str | None) -> None:
        self.kind = kind
        self.name = name
        self.gpus = gpus
        environment = {} if gpus is None else {VISIBLE_GPUS: gpus}
        self._process, self._connection = spawn(_own, environment=environment)
        self._exchanging = ThreadPoolExecutor(1)

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def ask(self, requests: Sequence[Request], compiled: Any = None) -> "Future[list[Any]]":
        return self._exchanging.submit(self._exchange, tuple(requests), compiled)

    def end(self) -> None:
        self._process.kill()
        self._process.join()
        self._exchanging.shutdown(wait=False, cancel_futures=True)

    def _exchange(self, requests: tuple[Request, ...], compiled: Compiled | None) -> list[Any]:
        """Sends requests to the process that owns the device and waits for its answers, one for each. Raises
        OwnerLost if it dies, or its device cannot be used any more. `compiled` is the compiled candidate that
        a request is about, None if there is none."""
        begun = False
        try:
            self._connection.send((requests, compiled))
            begun = self._connection.recv()
            answers = self._connection.recv()
        except (EOFError, OSError) as error:
            raise OwnerLost(f"{self.name}: its process {self._end_in_words()}.", begun=begun) from error
        if isinstance(answers, Exception):
            raise OwnerLost(f"{self.name}: {answers}")
        return list(answers)

    def _end_in_words(self) -> str:
        """Waits for the end of the device's process, up to ENDING_S seconds, then kills it; returns how it
        ended, in words."""
        self._process.join(ENDING_S)
        self._process.kill()
        self._process.join()
        assert self._process.exitcode is not None
        return ended(self._process.exitcode)


def _own(connection: "Connection[Any, Any]") -> None:
    """The main function of an owner's process: answers requests until the connection is closed. A device that
    is lost is reported, and ends it."""
    with closing(DeviceOwner()) as owner:
        while True:
            try:
                requests, compiled = connection.recv()
            except (EOFError, OSError):
                return
            with suppress(OSError):  # where the asking process is gone, here and below
                connection.send(True)  # the work has begun
            try:
                answers: object = owner.answer(requests, compiled)
            except DeviceLost as error:
                answers = error
            with suppress(OSError):
                connection.send(answers)
            if isinstance(answers, DeviceLost):
                return
