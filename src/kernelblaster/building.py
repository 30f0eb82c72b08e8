"""Progress messages for long one-time work, such as building the emulator."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Tell = Callable[[str], None]
_watcher: ContextVar[Tell | None] = ContextVar("watcher", default=None)


@contextmanager
def telling(tell: Tell) -> Iterator[None]:
    """A context in which progress messages of long one-time builds, such as that of the emulator, are passed
    to the function `tell` as text. Without such a context, a build prints one line to standard error when it
    begins and one when it ends."""
    before = _watcher.set(tell)
    try:
        yield
    finally:
        _watcher.reset(before)


@contextmanager
def building(what: str, how_long: str) -> Iterator[Tell]:
    """A context around a long one-time build: reports that `what` is being built, which takes about
    `how_long` (in words, for the message). Yields a function that reports progress, for example `12 of 42
    files`; its messages are only shown inside `telling`."""
    start = time.monotonic()
    watcher = _watcher.get()
    sentence = f"building {what} once, {how_long}"

    def report(progress: str) -> None:
        if watcher is not None:
            watcher(f"{sentence}: {progress}, {time.monotonic() - start:.0f} s")

    if watcher is None:
        print(f"{sentence} ...", file=sys.stderr, flush=True)
    else:
        watcher(sentence)
    yield report
    if watcher is None:
        print(f"built {what} in {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)
