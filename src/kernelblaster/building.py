"""Work that is done once on a machine and takes long, such as building the emulator: telling of it."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Tell = Callable[[str], None]
_watcher: ContextVar[Tell | None] = ContextVar("watcher", default=None)


@contextmanager
def telling(tell: Tell) -> Iterator[None]:
    """Inside the block, `tell` hears of such work, again and again while it goes on. Otherwise a line on
    standard error says that it begins, and one that it ended."""
    before = _watcher.set(tell)
    try:
        yield
    finally:
        _watcher.reset(before)


@contextmanager
def building(what: str, how_long: str) -> Iterator[Tell]:
    """Tell that something is built; what is yielded tells how far it is."""
    start = time.monotonic()
    watcher = _watcher.get()
    words = f"building {what} once, {how_long}"

    def told(progress: str) -> None:
        if watcher is not None:
            watcher(f"{words}: {progress}, {time.monotonic() - start:.0f} s")

    if watcher is None:
        print(f"{words} ...", file=sys.stderr, flush=True)
    else:
        watcher(words)
    yield told
    if watcher is None:
        print(f"built {what} in {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)
