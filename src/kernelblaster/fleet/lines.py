"""Connections to a dispatcher: within its process, or over a pipe from another process of this machine."""

from collections.abc import Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from itertools import count
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from typing import Any

from kernelblaster.errors import DeviceLost
from kernelblaster.fleet.dispatcher import Dispatcher
from kernelblaster.fleet.requests import Request


class DirectLine:
    """A `Line` to a dispatcher of this process, for one client."""

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
    """A `Line` to the dispatcher of another process. Made by `LineServer.connect`; can be pickled to a
    process as that is started."""

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
    """Passes requests that come over pipes on to a dispatcher, and the answers back.

    server = LineServer(dispatcher)
    workers = Workers(work, [(server.connect(),) for _ in range(4)])
    server.serve()
    """

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self._clients: dict[Connection[Any, Any], ThreadPoolExecutor] = {}
        self._theirs: list[Connection[Any, Any]] = []

    def connect(self) -> PipeLine:
        """A line to hand to one new process. Call it for all processes before `serve`."""
        here, there = Pipe()
        self._clients[here] = ThreadPoolExecutor(1)  # sends: one that does not listen holds up none
        self._theirs.append(there)
        return PipeLine(there)

    def serve(self) -> None:
        """Pass requests on until every process has closed its line or has ended. The processes must be
        running already."""
        for connection in self._theirs:
            connection.close()
        while self._clients:
            for client in wait(list(self._clients)):
                assert isinstance(client, Connection)
                self._pass_on(client)

    def _pass_on(self, client: "Connection[Any, Any]") -> None:
        """Pass on one request; forgets a client that has left."""
        try:
            number, request = client.recv()
        except (EOFError, OSError):
            self._clients.pop(client).shutdown(wait=False, cancel_futures=True)
            self._dispatcher.leave(client)
            return
        answer = self._dispatcher.submit(request, client)
        answer.add_done_callback(lambda done: self._send_back(client, number, done))

    def _send_back(self, client: "Connection[Any, Any]", number: int, done: "Future[Any]") -> None:
        """Have an answer, or the error that it raises, sent to a client."""
        sender = self._clients.get(client)
        if sender is not None:
            answer = done.exception() or done.result()
            with suppress(RuntimeError):  # it leaves at this moment
                sender.submit(_send, client, (number, answer))


def _send(client: "Connection[Any, Any]", message: object) -> None:
    with suppress(OSError):  # where the process is gone
        client.send(message)
