"""Processes that take jobs one after another and tell what comes of them.

Each has a pipe of its own and there is no lock between them, so that none can wait for ever for another that
was killed: an end of a pipe that closes is heard at once at the other.
"""

import errno
import multiprocessing
import os
import pickle
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from multiprocessing.connection import Connection, wait
from multiprocessing.reduction import ForkingPickler
from typing import Any

from kernelblaster.processes.parent import die_with_parent

_context = multiprocessing.get_context("spawn")
_WANTS = "a job, please"
_NO_MORE = "there is no more"
_LETS_GO = "not by me"
ENDING_S = 5.0  # that a process may live on when its pipe is closed


@dataclass(frozen=True)
class Fallen:
    """A job whose process ended while it was under way; the exit code, negative: a signal."""

    job: Any
    code: int


class WorkerLine:
    """A process's end of its pipe."""

    def __init__(self, connection: "Connection[Any, Any]") -> None:
        self._connection = connection

    def jobs(self) -> Iterator[Any]:
        """One after another, as long as there are any; ends too where the first process has ended."""
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
        self._connection.send((news,))

    def let_go(self) -> None:
        """The present job is not to blame for what follows."""
        self._connection.send(_LETS_GO)


class Crew:
    """One process for each of `arguments`, which calls `work(line, *arguments)`. They end with this one.
    `fallen` are the jobs during which a process ended, by whatever means."""

    def __init__(self, work: Callable[..., None], arguments: Sequence[tuple[Any, ...]]) -> None:
        self.fallen: list[Fallen] = []
        self._lines: list[Connection[Any, Any]] = []
        self._processes = []
        for own in arguments:
            here, there = _context.Pipe()
            packed = _Packed((work, there, *own))
            process = _context.Process(target=_enter, args=(packed,), daemon=True)
            process.start()
            there.close()
            self._lines.append(here)
            self._processes.append(process)
        self._of = dict(zip(self._lines, self._processes, strict=True))

    def heard(self, jobs: Iterable[Any]) -> Iterator[Any]:
        """Hand out the jobs, and give what is told, until the last process has ended."""
        waiting = iter(jobs)
        held: dict[Connection[Any, Any], Any] = {}
        while self._lines:
            for line in wait(self._lines):
                assert isinstance(line, Connection)
                try:
                    news = line.recv()
                    if news in (_WANTS, _LETS_GO):
                        held.pop(line, None)
                    if news == _WANTS:
                        job = next(waiting, _NO_MORE)
                        if job != _NO_MORE:
                            held[line] = job
                        line.send(job)
                except (EOFError, OSError):
                    self._lines.remove(line)
                    code = self._ended(line)
                    if line in held:
                        self.fallen.append(Fallen(held.pop(line), code))
                    continue
                if news not in (_WANTS, _LETS_GO):
                    yield news[0]

    def _ended(self, line: "Connection[Any, Any]") -> int:
        """The exit code of a process whose pipe is closed."""
        process = self._of[line]
        process.join(ENDING_S)
        if process.exitcode is None:
            process.kill()
            process.join()
        assert process.exitcode is not None
        return process.exitcode

    def kill(self) -> None:
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.join()

    @property
    def failures(self) -> list[int]:
        """The exit codes of those that did not end well; negative: a signal."""
        return [process.exitcode for process in self._processes if process.exitcode]


def work_off(
    work: Callable[..., None], arguments: tuple[Any, ...], jobs: Sequence[Any], workers: int
) -> Iterator[Any]:
    """What processes tell of these jobs, as it comes; ChildProcessError where one of them ended early."""
    crew = Crew(work, [arguments] * min(workers, len(jobs)))
    yield from _heard(crew, jobs)
    codes = crew.failures + [one.code for one in crew.fallen]
    if codes:
        raise ChildProcessError(f"a process ended with code {codes[0]}")


def tried_twice(
    work: Callable[..., None], arguments: tuple[Any, ...], jobs: Iterable[Any], workers: int
) -> Iterator[Any]:
    """What processes tell of these jobs, as it comes. A job whose process ends is tried once more, by itself:
    another one may have used up the memory. Where that process ends too, the job is told as `Fallen`."""
    waiting = iter(jobs)
    doubtful: list[Fallen] = []
    while (first := next(waiting, None)) is not None:
        crew = Crew(work, [arguments] * workers)
        yield from _heard(crew, chain([first], waiting))
        doubtful += crew.fallen
    for one in doubtful:
        crew = Crew(work, [arguments])
        yield from _heard(crew, [one.job])
        yield from crew.fallen


def _heard(crew: Crew, jobs: Iterable[Any]) -> Iterator[Any]:
    try:
        yield from crew.heard(jobs)
    except BaseException:
        crew.kill()
        raise


class _Packed:
    """Arguments that a process looks at when it is ready to: what they need may take long to import."""

    def __init__(self, contents: tuple[Any, ...]) -> None:
        self._contents = contents

    def __getstate__(self) -> bytes:
        return bytes(ForkingPickler.dumps(self._contents))

    def __setstate__(self, packed: bytes) -> None:
        self._packed = packed

    def opened(self) -> Any:
        return pickle.loads(self._packed)


def _enter(packed: _Packed) -> None:
    """Only the first process hears Ctrl-C, and ends the others."""
    die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    work, connection, *arguments = packed.opened()
    try:
        work(WorkerLine(connection), *arguments)
    except OSError as error:
        if error.errno != errno.EBADF:
            raise
        os._exit(1)  # foreign code has closed what this process talks through; its end is heard
