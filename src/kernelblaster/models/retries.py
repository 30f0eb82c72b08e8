"""Wrappers of endpoints: one tries failed calls again, one limits how many calls run at once."""

import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from kernelblaster.models.failures import Unavailable
from kernelblaster.models.request import Endpoint, ModelAnswer, Request, T


@dataclass(frozen=True)
class Patience:
    """How often a call is tried, and the waits between tries in seconds. The n-th wait is random between half
    of and the whole of `first_s` * 2**(n-1), at most `longest_s`; if the server hints at a wait, it is that
    and a little more. No more tries are made once the waits exceed `total_s`. `sleep` and `draw` (a random
    number from 0 to 1) can be replaced in tests."""

    tries: int = 6
    first_s: float = 1.0
    longest_s: float = 60.0
    total_s: float = 600.0
    sleep: Callable[[float], None] = time.sleep
    draw: Callable[[], float] = field(default=random.random)

    def wait_s(self, failures: int, hint_s: float | None) -> float:
        """Seconds to wait before the next try, after `failures` (1 or more) in a row: random between half of
        and the whole of `first_s` * 2**(failures-1), at most `longest_s`. If the server asked for a time
        (`hint_s`, else None), that time and up to `first_s` more instead."""
        doubled: float = min(self.first_s * 2 ** (failures - 1), self.longest_s)
        spread = 0.5 + self.draw() / 2
        return doubled * spread if hint_s is None else hint_s + self.first_s * spread


class Retrying:
    """An endpoint (source of raw answers) that asks the inner one again, after a wait, while that raises
    `Unavailable`, as often as its `Patience` allows; the last failure is then raised."""

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
    """An endpoint (source of raw answers) with at most `calls` calls in progress at once; further ones
    wait."""

    def __init__(self, endpoint: Endpoint, calls: int) -> None:
        self._endpoint = endpoint
        self._slots = threading.BoundedSemaphore(calls)

    def answer(self, request: Request[T]) -> ModelAnswer:
        with self._slots:
            return self._endpoint.answer(request)
