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
    """Inside the block, `tell` is called with each progress message of such work. Outside of any such block,
    one line on standard error says that the work begins and one that it ended."""
    before = _watcher.set(tell)
    try:
        yield
    finally:
        _watcher.reset(before)


@contextmanager
def building(what: str, how_long: str) -> Iterator[Tell]:
    """Report that `what` is being built, which takes about `how_long`. Yields a function to report progress
    with, for example `12 of 42 files`."""
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
