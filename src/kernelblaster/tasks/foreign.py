"""Runs a task's own Python code in this process. Whatever it raises, even SystemExit, becomes a BadTask; what
it prints is hidden; its network connections are refused. Not stopped is code that ends the process by
os._exit, or from another language (docs/security.md)."""

import signal
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any

from kernelblaster.errors import BadTask
from kernelblaster.plain_text import one_line
from kernelblaster.settings import settings
from kernelblaster.tasks.offline import OpensConnection, offline
from kernelblaster.tasks.quiet import quiet

IMPORT_LIMIT_S = 60.0


class TookTooLong(Exception):
    """Raised inside the task's code when its time limit has passed."""


class Hangs(BadTask):
    """A BadTask for a task whose code did not end within its time limit; callers do not try it again."""


@contextmanager
def foreign(path: str, what: str = "", limit_s: float | None = None) -> Iterator[None]:
    """A context for running a task's code. Whatever the code raises, including SystemExit, becomes a
    `BadTask`; a real Ctrl-C passes through. The error names the file (`path`), the line, and what was being
    done, in the words `what`. What the code prints is not shown. After `limit_s` seconds the code is
    interrupted, which raises `Hangs`: only in the main thread, and only while it runs Python code."""
    with _interrupts() as pressed, time_limit(limit_s), quiet():
        try:
            with offline():
                yield
        except BadTask:
            raise
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt) and pressed.is_set():
                raise
            problem = _problem(error, path, what)
        else:
            return
    raise problem


@contextmanager
def kept_going(where: str) -> Iterator[None]:
    """A context for running a task's code whose exceptions the caller handles itself: they pass through. Only
    what would end the command (SystemExit and the like) becomes a `BadTask`, whose message begins with
    `where`, the name of the code. A real Ctrl-C passes through too."""
    with _interrupts() as pressed, quiet():
        try:
            with offline():
                yield
        except Exception:
            raise
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt) and pressed.is_set():
                raise
            problem = BadTask(f"{where} ({_place(error.__traceback__)}): {_ending(error)}")
        else:
            return
    raise problem


def one_line_of(error: BaseException) -> str:
    """Returns the exception `error` as one line for a message, "Type: message", the message cut at 300
    characters."""
    return f"{type(error).__name__}: {one_line(_words(error))[:300]}".removesuffix(": ")


def confinement_hint(error: BaseException) -> str:
    """Returns a sentence for the user that names the options by which a task may read more files, if `error`
    is a PermissionError of a task that is confined to its own folder; empty for other errors."""
    if not (isinstance(error, PermissionError) and settings().confined):
        return ""
    return (
        ". Tasks read their own folder and have no network: `kernelblaster --readable PATH COMMAND` lets "
        "them read more, --trust-tasks runs them as your own code (docs/security.md)"
    )


def _words(error: BaseException) -> str:
    """The message of an exception; "without words (TYPE)" if its own __str__ raises an exception of that
    type."""
    try:
        return str(error)
    except BaseException as other:
        return f"without words ({type(other).__name__})"


def _problem(error: BaseException, path: str, what: str) -> BadTask:
    """The BadTask (Hangs for a TookTooLong) that reports an exception from the code of the file `path`: with
    the innermost line of that file in the traceback, if there is any, and `what`, the words for what was
    being done."""
    if isinstance(error, SyntaxError):
        return BadTask(f"{path}:{error.lineno}: syntax error: {error.msg}")
    frames = traceback.walk_tb(error.__traceback__)
    lines = [line for frame, line in frames if frame.f_code.co_filename == path]
    location = f"{path}:{lines[-1]}" if lines else path
    kind = Hangs if isinstance(error, TookTooLong) else BadTask
    ending = _missing(error) or _ending(error) + confinement_hint(error)
    return kind(f"{location}: {what + ': ' if what else ''}{ending}")


def _missing(error: BaseException) -> str:
    """What to tell the user if the task's code needs a package that is not installed, or a network
    connection, and what to do about it; "" for other errors."""
    if isinstance(error, ModuleNotFoundError) and error.name:
        package = error.name.partition(".")[0]
        return (
            f"it needs the package {one_line(package)[:100]}, which is not installed here; install it "
            "(pip install), or leave it out of the file."
        )
    if isinstance(error, OpensConnection):
        return (
            f"it opens a connection to {one_line(str(error))[:100]}; a task must not depend on the network: "
            "build the model with random weights, or read them from a file."
        )
    return ""


def _ending(error: BaseException) -> str:
    """The exception as "Type: message"; for one that is not an Exception (such as SystemExit), that it would
    have ended the process."""
    words = one_line_of(error)
    return words if isinstance(error, Exception) else f"it would end the process ({words})"


def _place(trace: TracebackType | None) -> str:
    """Where an exception was raised, as FILE:LINE of the innermost frame of its traceback; "the task" if
    there is no traceback."""
    frames = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(trace)]
    return f"{frames[-1][0]}:{frames[-1][1]}" if frames else "the task"


@contextmanager
def _interrupts() -> Iterator[threading.Event]:
    """A context that yields an event, which is set if the user really presses Ctrl-C (SIGINT arrives) inside,
    as opposed to code raising KeyboardInterrupt itself. Never set outside the main thread."""
    pressed = threading.Event()
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield pressed
        return

    def press(number: int, frame: FrameType | None) -> Any:
        pressed.set()
        return before(number, frame)

    signal.signal(signal.SIGINT, press)
    try:
        yield pressed
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def time_limit(limit_s: float | None) -> Iterator[None]:
    """A context in which code may run for `limit_s` seconds; then TookTooLong is raised in that code, by the
    signal SIGALRM. Without effect if `limit_s` is None, or outside of the main thread."""
    if limit_s is None or threading.current_thread() is not threading.main_thread():
        yield
        return

    def ring(number: int, frame: FrameType | None) -> None:
        raise TookTooLong(f"took longer than {limit_s:g} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, limit_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
