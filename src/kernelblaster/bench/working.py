"""Who works on a bench: its processes hold a lock together, so that the next one waits for those of one that
was killed, which need a moment to end."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from kernelblaster.errors import StoreError
from kernelblaster.processes.parent import die_with_parent

ENDING_S = 30.0  # that processes of an earlier one may take to end
PAUSE_S = 0.05
WORKING = ".working"


def begin_work(folder: Path, limit_s: float = ENDING_S) -> IO[str]:
    """The lock, held by this process as the first; it has the log of the bench to itself already. Waits for
    processes that are left of an earlier one."""
    file = _opened(folder)
    until = time.monotonic() + limit_s
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if time.monotonic() > until:
                file.close()
                raise StoreError(
                    f"{folder}: processes of an earlier command are still at work on it; try again when they "
                    "have ended, or end them."
                ) from None
        except OSError as error:
            file.close()
            raise StoreError(f"{folder}: cannot be locked: {error.strerror or error}") from error
        time.sleep(PAUSE_S)
    fcntl.flock(file, fcntl.LOCK_SH)
    return file


@contextmanager
def taking_part(folder: Path) -> Iterator[None]:
    """Hold the lock beside the first process. Where that has ended by now, so does this one: another may
    have begun already."""
    with _opened(folder) as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        die_with_parent()
        yield


def _opened(folder: Path) -> IO[str]:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return os.fdopen(os.open(folder / WORKING, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644), "r+")
    except OSError as error:
        raise StoreError(f"{folder}: {error.strerror or error}") from error
