"""The server's side of the process that judges candidates: sends it requests one after another, passes its
progress on, and ends it when a request is cancelled or takes more than 900 s (JUDGE_LIMIT_S)."""

import asyncio
import itertools
import logging
import queue
import threading
from collections.abc import Awaitable, Callable
from typing import Any

from kernelblaster.errors import DeviceLost, KernelBlasterError
from kernelblaster.mcp.setup import JUDGE_LIMIT_S, MOST_WAITING, AgentSetup
from kernelblaster.processes.workers import JobPipe, Workers

ENDING_S = 10.0  # in which the process may write its results
Say = Callable[[str], Awaitable[None]]
_log = logging.getLogger(__name__)


async def ignore_progress(stage: str) -> None:
    """Does nothing with the progress message `stage`: for requests whose progress nobody watches."""


def _work(pipe: JobPipe, setup: AgentSetup) -> None:
    """The main function of the process that judges: answers the requests that come through `pipe`, with what
    `setup` allows. `judge_work`, which loads torch, is imported there and not by the server."""
    from kernelblaster.mcp.judge_work import work

    work(pipe, setup)


class JudgeProcess:
    """The process that judges candidates for one server. It is started when it is first needed, and again
    after it was ended. `setup` says what it may use; one request may take `limit_s` seconds. Use it from one
    event loop only."""

    def __init__(self, setup: AgentSetup, limit_s: float = JUDGE_LIMIT_S) -> None:
        self._setup = setup
        self._limit_s = limit_s
        self._turn = asyncio.Lock()
        self._numbers = itertools.count(1)
        self._waiting = 0
        self._crew: Workers | None = None
        self._thread: threading.Thread | None = None
        self._jobs: queue.Queue[Any] = queue.Queue()
        self._news: asyncio.Queue[tuple[int, str, Any]] = asyncio.Queue()

    async def ask(self, verb: str, say: Say = ignore_progress, **arguments: Any) -> Any:
        """Sends a request to the judge's process: it calls the method `verb` of its `JudgeDesk` with these
        arguments, once it has answered all earlier requests. Returns the result. `say` is called with
        progress. The process is ended if the caller is cancelled, or if the request takes longer than the
        limit. Raises KernelBlasterError if the request fails, or if 16 requests (MOST_WAITING) wait already;
        DeviceLost if the process ends."""
        if self._waiting >= MOST_WAITING:
            raise KernelBlasterError(f"{self._waiting} requests wait for the judge already; try again later.")
        self._waiting += 1
        try:
            if self._waiting > 1:
                await say(f"waiting for {self._waiting - 1} other requests")
            async with self._turn:
                return await self._ask(verb, say, arguments)
        finally:
            self._waiting -= 1

    async def release(self) -> None:
        """Has the judge's process give the GPU back, so that another process can use it. Does nothing if it
        was not started."""
        if self._crew is not None:
            await self.ask("release")

    def close(self) -> None:
        """Ends the judge's process after it has written its runs' results; it is killed if that takes more
        than 10 s (ENDING_S)."""
        self._jobs.put(None)
        if self._thread is not None:
            self._thread.join(ENDING_S)
        self._end()

    async def _ask(self, verb: str, say: Say, arguments: dict[str, Any]) -> Any:
        if self._crew is None:
            await say("starting the judge")
            self._start()
        number = next(self._numbers)
        self._jobs.put((number, verb, arguments))
        try:
            async with asyncio.timeout(self._limit_s):
                while True:
                    answered, kind, value = await self._news.get()
                    if answered not in (number, 0):
                        continue  # of a request that was ended
                    if kind == "done":
                        return value
                    if kind == "failed":
                        raise KernelBlasterError(value)
                    if kind == "lost":
                        self._crew = None
                        raise DeviceLost(
                            f"the process that judges ended ({value}); this task or candidate may be the "
                            "reason. Other calls work: it is started again."
                        )
                    await say(value)
        except TimeoutError as error:
            self._end()
            raise KernelBlasterError(f"this took longer than {self._limit_s:g} s, and was ended.") from error
        except asyncio.CancelledError:
            self._end()
            raise

    def _start(self) -> None:
        """Starts the process that judges, and a thread that passes requests to it and its messages to the
        event loop."""
        loop = asyncio.get_running_loop()
        self._jobs, self._news = queue.Queue(), asyncio.Queue()
        jobs, news = self._jobs, self._news
        crew = Workers(_work, [(self._setup,)])

        def tell(item: tuple[int, str, Any]) -> None:
            try:
                loop.call_soon_threadsafe(news.put_nowait, item)
            except RuntimeError:
                _log.debug("the server has ended")

        def hand_over() -> None:
            for item in crew.replies(iter(jobs.get, None)):
                tell(item)
            codes = [one.code for one in crew.lost_jobs] + crew.failures
            tell((0, "lost", f"exit code {codes[0]}" if codes else "no exit code"))

        self._crew = crew
        self._thread = threading.Thread(target=hand_over, name="judge", daemon=True)
        self._thread.start()

    def _end(self) -> None:
        """Kills the judge's process and all processes that it has started, without waiting."""
        crew, self._crew = self._crew, None
        if crew is not None:
            crew.kill(wait=False)
            self._jobs.put(None)
