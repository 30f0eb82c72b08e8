"""Wrappers of endpoints (sources of unparsed answers): one makes failed calls again, one limits how many run
at once."""

import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from kernelblaster.models.failures import Unavailable
from kernelblaster.models.request import Endpoint, ModelAnswer, Request, T


@dataclass(frozen=True)
class Patience:
    """How often a failed call is made again. There are at most `tries` calls in all, with a wait before each
    further one: the n-th wait is a random time between half of and the whole of `first_s` * 2**(n-1) seconds,
    at most `longest_s`. If the server asks for a certain wait, it is that and up to `first_s` more. No
    further call is made once the waits would exceed `total_s` seconds together. `sleep` waits, and `draw`
    gives a random number from 0 to 1; tests replace them."""

    tries: int = 6
    first_s: float = 1.0
    longest_s: float = 60.0
    total_s: float = 600.0
    sleep: Callable[[float], None] = time.sleep
    draw: Callable[[], float] = field(default=random.random)

    def wait_s(self, failures: int, hint_s: float | None) -> float:
        """Returns how many seconds to wait after this number of failures (1 or more): a random time between
        half of and the whole of `first_s` * 2**(failures-1), at most `longest_s` (both are fields of this
        object). `hint_s` is the wait that the server asked for, or None; if given, the result is that and up
        to `first_s` more."""
        doubled: float = min(self.first_s * 2 ** (failures - 1), self.longest_s)
        spread = 0.5 + self.draw() / 2
        return doubled * spread if hint_s is None else hint_s + self.first_s * spread


class Retrying:
    """An endpoint (source of unparsed answers) that asks the inner `endpoint`. While that raises
    `Unavailable`, it waits and asks again, as often as `patience` allows, and then raises the last
    failure."""

    def __init__(self, endpoint: Endpoint, patience: Patience) -> None:
        self._endpoint = endpoint
        self._patience = patience

    def answer(self, request: Request[T]) -> ModelAnswer:
        waited_s = 0.0
        for failures in range(1, self._patience.tries):
            try:
                return self._endpoint.answer(request)
            except Unavailable as failure:
                wait_s = self._patience.wait_s(failures, failure.wait_s)
                waited_s += wait_s
                if waited_s > self._patience.total_s:
                    raise
            self._patience.sleep(wait_s)
        return self._endpoint.answer(request)


class Limited:
    """An endpoint (source of unparsed answers) that asks the inner `endpoint`, with at most `calls` calls in
    progress at a time. Further calls wait."""

    def __init__(self, endpoint: Endpoint, calls: int) -> None:
        self._endpoint = endpoint
        self._slots = threading.BoundedSemaphore(calls)

    def answer(self, request: Request[T]) -> ModelAnswer:
        with self._slots:
            return self._endpoint.answer(request)
