"""The pool of worker processes, which take jobs one after another and send back messages.

Each worker has a pipe of its own, and there is no lock between workers, so that none can wait forever for
another that was killed: when one end of a pipe closes, the other end notices at once.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from multiprocessing.connection import Connection, wait
from typing import Any, Protocol

from kernelblaster.processes.spawned import spawn

_WANTS = "a job, please"
_NO_MORE = "there is no more"
_DISOWNS = "not by me"
ENDING_S = 5.0  # seconds that a process may live on after its pipe is closed


class Closable(Protocol):
    """An object with a `close` method, like one end of a pipe, that is passed to a new process and then
    closed in this one."""

    def close(self) -> None: ...


@dataclass(frozen=True)
class LostJob:
    """A `job` whose worker process ended before finishing it. `code` is the process's exit code; a negative
    one is the number of the signal that ended it."""

    job: Any
    code: int


class JobPipe:
    """A worker's end of its pipe to the parent process, through which it gets jobs and sends messages;
    `connection` is the pipe's end. `Workers` makes it and passes it to the function that the worker calls."""

    def __init__(self, connection: "Connection[Any, Any]") -> None:
        self._connection = connection

    def jobs(self) -> Iterator[Any]:
        """Yields jobs from the parent process, one after another. Asking for the next job tells the parent
        that the one before is finished. Ends when there are no more, or the parent has ended."""
        while True:
            try:
                self._connection.send(_WANTS)
                job = self._connection.recv()
            except (EOFError, OSError):
                return
            if job == _NO_MORE:
                return
            yield job

    def tell(self, news: object) -> None:
        """Sends a message from the worker to the parent process, where `Workers.replies` yields it. `news` is
        any object that can be pickled."""
        self._connection.send((news,))

    def disown_job(self) -> None:
        """Tells the parent that the current job is to count as finished, although it is not. This is for a
        worker that is about to end because of an error for which the job is not to blame: the job is then not
        listed among the lost ones, and not tried again."""
        self._connection.send(_DISOWNS)


class Workers:
    """Worker processes, one for each tuple of `arguments`; each calls `work(pipe, *arguments)` with its
    `JobPipe`. They start at once and are killed when this process ends. `lost_jobs` are the jobs whose
    process ended before finishing them; `handed_out` is how many were given to a process."""

    def __init__(self, work: Callable[..., None], arguments: Sequence[tuple[Any, ...]]) -> None:
        self.lost_jobs: list[LostJob] = []
        self.handed_out = 0
        self._lines: list[Connection[Any, Any]] = []
        self._processes = []
        for own in arguments:
            process, here = spawn(_enter, work, *own)
            self._lines.append(here)
            self._processes.append(process)
        self._of = dict(zip(self._lines, self._processes, strict=True))

    def replies(self, jobs: Iterable[Any]) -> Iterator[Any]:
        """Hands out `jobs` to workers as these ask for them. Yields the messages that workers send with
        `JobPipe.tell`, in the order in which they arrive, until all workers have ended. Jobs whose worker
        ended before finishing them are added to `lost_jobs`."""
        waiting = iter(jobs)
        held: dict[Connection[Any, Any], Any] = {}
        while self._lines:
            for line in wait(self._lines):
                assert isinstance(line, Connection)
                try:
                    news = line.recv()
                    if news in (_WANTS, _DISOWNS):
                        held.pop(line, None)
                    if news == _WANTS:
                        job = next(waiting, _NO_MORE)
                        if job != _NO_MORE:
                            held[line] = job
                            self.handed_out += 1
                        line.send(job)
                except (EOFError, OSError):
                    self._lines.remove(line)
                    code = self._ended(line)
                    if line in held:
                        self.lost_jobs.append(LostJob(held.pop(line), code))
                    continue
                if news not in (_WANTS, _DISOWNS):
                    yield news[0]

    def _ended(self, line: "Connection[Any, Any]") -> int:
        """The exit code of the process whose pipe `line` is closed; it is killed if it still runs
        ENDING_S seconds later."""
        process = self._of[line]
        process.join(ENDING_S)
        if process.exitcode is None:
            process.kill()
            process.join()
        assert process.exitcode is not None
        return process.exitcode

    def kill(self, *, wait: bool = True) -> None:
        """Kills all worker processes; with `wait`, returns when they have ended. Use `wait=False` if another
        thread iterates over `replies`: that thread then waits for their end."""
        for process in self._processes:
            process.kill()
        for process in self._processes if wait else ():
            process.join()

    @property
    def failures(self) -> list[int]:
        """The exit codes of those worker processes that have ended with another code than 0. A negative code
        is the number of the signal that ended the process, like -9."""
        return [process.exitcode for process in self._processes if process.exitcode]


def run_with_retry(
    work: Callable[..., None],
    arguments: tuple[Any, ...],
    jobs: Iterable[Any],
    workers: int,
    connect: Callable[[], Closable] | None = None,
) -> Iterator[Any]:
    """Does jobs in up to `workers` processes at once. Each process calls `work(pipe, *arguments)` once, with
    a `JobPipe`: `work` gets one job after another from `pipe.jobs()`, until there is none left, and sends any
    number of messages by `pipe.tell`. These messages are yielded as they arrive.

    A job whose process ends is tried once more, in a process by itself, because another job may have used up
    the memory. This is done after all other jobs or, with a single worker, at once, so that jobs keep their
    order. If that process ends too, a `LostJob` is yielded among the messages.

    `connect`, if given, is called once for each process. Its result is passed to the process as a further
    argument of `work`, before `arguments`, and is then closed in this process.
    """
    waiting = iter(jobs)
    doubtful: list[LostJob] = []
    while (first := next(waiting, None)) is not None:
        crew = _connected(work, arguments, workers, connect)
        yield from _replies(crew, chain([first], waiting))
        doubtful += _lost(crew, first)
        while workers == 1 and doubtful:
            yield from _once_more(doubtful.pop().job, work, arguments, connect)
    for one in doubtful:
        yield from _once_more(one.job, work, arguments, connect)


def _once_more(
    job: Any,
    work: Callable[..., None],
    arguments: tuple[Any, ...],
    connect: Callable[[], Closable] | None,
) -> Iterator[Any]:
    """Does a job in a process of its own and yields its messages; a `LostJob` if that process ends."""
    crew = _connected(work, arguments, 1, connect)
    yield from _replies(crew, [job])
    yield from _lost(crew, job)


def _lost(crew: Workers, first: Any) -> list[LostJob]:
    """Returns the jobs that were lost with the worker processes of `crew`, all of which have ended. If they
    ended before any of them took a job, that is the `first` job, which would otherwise be forgotten."""
    if crew.handed_out:
        return crew.lost_jobs
    return [LostJob(first, crew.failures[0] if crew.failures else 0)]


def _connected(
    work: Callable[..., None],
    arguments: tuple[Any, ...],
    workers: int,
    connect: Callable[[], Closable] | None,
) -> Workers:
    """`workers` processes that call `work(pipe, *arguments)`; if `connect` is given, each gets one object
    that it returns before the other arguments, and that object is closed in this process."""
    if connect is None:
        return Workers(work, [arguments] * workers)
    lines = [connect() for _ in range(workers)]
    try:
        return Workers(work, [(line, *arguments) for line in lines])
    finally:
        for line in lines:
            line.close()


def _replies(crew: Workers, jobs: Iterable[Any]) -> Iterator[Any]:
    """Yields the messages of the workers `crew` while they do `jobs`; they are killed if the caller stops
    early or something fails."""
    try:
        yield from crew.replies(jobs)
    except BaseException:
        crew.kill()
        raise


def _enter(connection: "Connection[Any, Any]", work: Callable[..., None], *arguments: Any) -> None:
    """The main function of a worker process: `work` gets a `JobPipe` for this connection and the
    arguments."""
    work(JobPipe(connection), *arguments)
