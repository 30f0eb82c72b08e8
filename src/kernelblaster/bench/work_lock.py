"""The lock of a bench folder, by which a new command waits until no process of an earlier one works there any
more. While a command runs, its main process and its workers all hold the lock together (as a shared lock). If
a command is killed, its workers may end later than its main process; the next command waits for them."""

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
    """Takes the lock of a bench's `folder` for a new command, and returns the open lock file; closing the
    file releases the lock. The lock is first taken exclusively, which succeeds only once all processes of an
    earlier command have ended. Then it is made a shared lock, so that this command's own workers can hold it
    too (`share_work_lock`). Waits up to `limit_s` seconds for the earlier processes, then raises StoreError;
    raises it also if the lock file cannot be opened or locked. The caller must already hold the lock of the
    bench's event log, so that no second command does the same at this time."""
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
    """A context for a worker process of a bench: it holds the lock of the bench's `folder`, as a shared lock
    that the bench's main process holds too. When entered, it asks the Linux kernel to kill this worker as
    soon as the main process ends. If the main process has ended already, this worker exits at once, since
    another command may be working in the folder by now."""
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
