"""The lock of a bench folder, which all processes that work on the bench hold together: a new command waits
until the processes of a killed one have ended."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from kernelblaster.errors import StoreError
from kernelblaster.processes.parent import die_with_parent

ENDING_S = 30.0  # seconds that processes of an earlier command may take to end
PAUSE_S = 0.05
WORKING = ".working"


def acquire_work_lock(folder: Path, limit_s: float = ENDING_S) -> IO[str]:
    """Takes the lock of a bench's `folder` as its main process, which must already hold the lock of the event
    log. Waits up to `limit_s` seconds for workers of an earlier command to end; then raises StoreError.
    Returns the open lock file, which holds the lock (shared with this command's workers) until it is
    closed."""
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
def share_work_lock(folder: Path) -> Iterator[None]:
    """A context in which a worker process holds the lock of a bench's `folder`, together with the main
    process. Ends the worker at once if that one has ended, since another command may have started already."""
    with _opened(folder) as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        die_with_parent()
        yield


def _opened(folder: Path) -> IO[str]:
    """Opens the lock file of a bench's folder for writing, creating both if need be. Raises StoreError if
    that fails."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return os.fdopen(os.open(folder / WORKING, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644), "r+")
    except OSError as error:
        raise StoreError(f"{folder}: {error.strerror or error}") from error
