"""Connections by which a search sends requests to a dispatcher (the object that hands requests to devices):
directly if both are in one process, over a pipe if not."""

from collections.abc import Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from itertools import count
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from threading import Thread
from typing import Any

from kernelblaster.errors import DeviceLost
from kernelblaster.fleet.dispatcher import Dispatcher
from kernelblaster.fleet.requests import Request


class DirectLine:
    """A connection of a search to a dispatcher (which hands requests to devices) in the same process."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self._client: Hashable = object()
        self._numbers = count()
        self._answers: dict[int, Future[Any]] = {}

    def send(self, request: Request) -> int:
        number = next(self._numbers)
        self._answers[number] = self._dispatcher.submit(request, self._client)
        return number

    def receive(self, number: int) -> Any:
        return self._answers.pop(number).result()

    def close(self) -> None:
        self._dispatcher.leave(self._client)


class PipeLine:
    """A `Line` (connection of a search to a dispatcher, which hands requests to devices) over a pipe to the
    dispatcher in another process. `connection` is this process's end of the pipe. `LineServer.connect` makes
    the object; it can be passed to a new process when that is started."""

    def __init__(self, connection: "Connection[Any, Any]") -> None:
        self._connection = connection
        self._sent = 0
        self._early: dict[int, Any] = {}

    def send(self, request: Request) -> int:
        self._sent = number = self._sent + 1
        with suppress(OSError):  # a dispatcher that is gone shows when its answer is received
            self._connection.send((number, request))
        return number

    def receive(self, number: int) -> Any:
        while number not in self._early:
            try:
                other, answer = self._connection.recv()
            except (EOFError, OSError) as error:
                raise DeviceLost("the process that leads the fleet has ended.") from error
            self._early[other] = answer
        answer = self._early.pop(number)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def close(self) -> None:
        self._connection.close()


class LineServer:
    """Passes requests that come over pipes on to a dispatcher (which hands them to devices), and sends the
    answers back. It does so in a thread of its own until it is closed. A context manager.

        with LineServer(dispatcher) as server:
            for news in run_with_retry(work, (), jobs, workers=4, connect=server.connect): ...

    Here four worker processes call `work(pipe, line)`. Through `pipe`, a worker gets its jobs and sends
    messages back. `line` is a connection of its own, made by `server.connect`, over which its requests
    reach the dispatcher.
    """

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self._clients: dict[Connection[Any, Any], ThreadPoolExecutor] = {}
        self._wakes, self._wake = Pipe(duplex=False)
        self._thread = Thread(target=self._serve, daemon=True, name="lines")
        self._thread.start()

    def __enter__(self) -> "LineServer":
        return self

    def __exit__(self, *_: object) -> None:
        self._wake.close()
        self._thread.join()
        for client in list(self._clients):
            self._forget(client)

    def connect(self) -> PipeLine:
        """Returns a connection by which one new process sends requests to the dispatcher. The caller passes
        it to the process when starting it, and then closes it in this process, so that the server notices
        when the new process has ended."""
        here, there = Pipe()
        self._clients[here] = ThreadPoolExecutor(1)  # sends: one that does not listen holds up none
        self._wake.send(None)
        return PipeLine(there)

    def _serve(self) -> None:
        """What the server's thread does until `_wake` is closed: takes requests from all client processes and
        passes them to the dispatcher."""
        while True:
            for ready in wait([self._wakes, *list(self._clients)]):
                assert isinstance(ready, Connection)
                try:
                    message = ready.recv()
                except (EOFError, OSError):
                    if ready is self._wakes:
                        return
                    self._forget(ready)
                    continue
                if ready is not self._wakes:
                    self._pass_on(ready, *message)

    def _forget(self, client: "Connection[Any, Any]") -> None:
        """Drops what is kept for a client process that has closed its pipe or ended, and tells the
        dispatcher, which then drops its requests."""
        self._clients.pop(client).shutdown(wait=False, cancel_futures=True)
        self._dispatcher.leave(client)

    def _pass_on(self, client: "Connection[Any, Any]", number: int, request: Request) -> None:
        """Hands a client's request to the dispatcher; its answer will be sent back under the same
        `number`."""
        answer = self._dispatcher.submit(request, client)
        answer.add_done_callback(lambda done: self._send_back(client, number, done))

    def _send_back(self, client: "Connection[Any, Any]", number: int, done: "Future[Any]") -> None:
        """Sends the answer to request `number`, or the exception in its place, to the client, unless that has
        left."""
        sender = self._clients.get(client)
        if sender is not None:
            answer = done.exception() or done.result()
            with suppress(RuntimeError):  # it leaves at this moment
                sender.submit(_send, client, (number, answer))


def _send(client: "Connection[Any, Any]", message: object) -> None:
    with suppress(OSError):  # where the process is gone
        client.send(message)
