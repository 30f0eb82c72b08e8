"""Keeps what a task's code prints, and what PyTorch logs and warns of meanwhile, off the terminal.

This concerns only the thread that asks for it: output of other threads is shown as before, and contexts of
several threads may overlap.
"""

import logging
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO


class _Muted(logging.Filter):
    """Knows which threads are muted (inside `quiet`), separately for each thread. As a filter on log
    handlers, it drops what torch's loggers say in muted threads."""

    def __init__(self) -> None:
        super().__init__()
        self._local = threading.local()

    @property
    def depth(self) -> int:
        """How many `quiet` contexts the calling thread is in; it is muted unless this is 0."""
        return getattr(self._local, "depth", 0)

    @depth.setter
    def depth(self, value: int) -> None:
        self._local.depth = value

    @property
    def printed(self) -> int:
        """How many characters the calling thread has tried to print in `quiet` contexts since it started."""
        return getattr(self._local, "printed", 0)

    @printed.setter
    def printed(self, value: int) -> None:
        self._local.printed = value

    def filter(self, record: logging.LogRecord) -> bool:
        return not (self.depth and record.name.partition(".")[0] == "torch")


class _Stream:
    """Replaces a text stream such as sys.stdout: counts and drops what muted threads write, and passes
    everything else on to the stream that it replaces."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        if not _MUTED.depth:
            return self._stream.write(text)
        _MUTED.printed += len(text)
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


_MUTED = _Muted()


class _Control:
    """Replaces the standard streams and the display of warnings, and filters torch's loggers, while some
    thread is muted: the first thread to enter replaces them, the last to leave restores them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._loggers = 0
        self._replaced: tuple[TextIO, TextIO, Callable[..., None]] | None = None

    def enter(self) -> None:
        with self._lock:
            self._users += 1
            self._filter_handlers()
            if self._replaced is None:
                self._replaced = sys.stdout, sys.stderr, warnings.showwarning
                sys.stdout, sys.stderr = _Stream(sys.stdout), _Stream(sys.stderr)  # type: ignore[assignment]
                warnings.showwarning = _unless_muted(warnings.showwarning)

    def leave(self) -> None:
        """End one context; the last one restores streams and warnings. A stream or handler that other code
        has replaced in the meantime is left as it is."""
        with self._lock:
            self._users -= 1
            if self._users or self._replaced is None:
                return
            out, err, show = self._replaced
            sys.stdout = out if isinstance(sys.stdout, _Stream) else sys.stdout
            sys.stderr = err if isinstance(sys.stderr, _Stream) else sys.stderr
            if getattr(warnings.showwarning, "muting", False):
                warnings.showwarning = show
            self._replaced = None

    def _filter_handlers(self) -> None:
        """Attach the filter to all log handlers that may show what torch's loggers say. Torch adds loggers
        and handlers when parts of it are first imported, so this is repeated whenever there are more loggers
        than before."""
        known = logging.Logger.manager.loggerDict
        if len(known) == self._loggers:
            return
        self._loggers = len(known)
        loggers: list[Any] = [logging.getLogger(), logging.getLogger("torch")]
        loggers += [known[name] for name in list(known) if name.startswith("torch.")]
        handlers = {handler for logger in loggers for handler in getattr(logger, "handlers", ())}
        for handler in (*handlers, logging.lastResort):
            if handler is not None and _MUTED not in handler.filters:
                handler.addFilter(_MUTED)


_CONTROL = _Control()


@contextmanager
def quiet() -> Iterator[None]:
    """A context in which nothing is shown that this thread prints, warns of, or logs through torch; other
    threads are not affected. (PyTorch prints some forty lines whenever a module refuses a size.)"""
    _CONTROL.enter()
    before = _MUTED.depth
    _MUTED.depth = before + 1
    try:
        yield
    finally:
        _MUTED.depth = before
        _CONTROL.leave()


def printed_characters() -> int:
    """Returns how many characters this thread has printed so far while it was inside a `quiet` context. By
    this, the loading of a task notices that its file prints megabytes."""
    return _MUTED.printed


def _unless_muted(show: Callable[..., None]) -> Callable[..., None]:
    """A function for `warnings.showwarning` that shows a warning by `show`, the original one, and drops it in
    threads that are inside `quiet`."""

    def shown(*given: Any, **named: Any) -> None:
        if not _MUTED.depth:
            show(*given, **named)

    shown.muting = True  # type: ignore[attr-defined]
    return shown
