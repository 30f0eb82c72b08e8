"""How far a knowledge base in a file had come, kept beside it as long as SQLite's log is.

What was written last is in that log (`-wal`) until the last process closes the file. Where a process was
killed the log stays, and SQLite drops all that follows a damaged place in it, without a word. The version
that was reached is then known from here.
"""

import contextlib
import fcntl
import hashlib
import os
from pathlib import Path

BESIDE = ("-wal", "-shm", "-journal", "-head")
"""What may lie beside the file of a knowledge base, by the end of its name."""


class Head:
    def __init__(self, file: Path) -> None:
        self._path, self._log = Path(f"{file}-head"), Path(f"{file}-wal")

    def read(self) -> int:
        """The latest version that is known to have been written; 0 where nothing is known."""
        try:
            return _version(self._path.read_bytes())
        except OSError:
            return 0

    def reach(self, version: int) -> None:
        """This version has been written. Where that cannot be kept, less is known, and nothing is wrong."""
        with contextlib.suppress(OSError):
            handle = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX)
                if _version(os.pread(handle, 64, 0)) < version:
                    os.pwrite(handle, _line(version), 0)
            finally:
                os.close(handle)

    def forget(self) -> None:
        """If there is no log any more: all is in the file itself."""
        if not self._log.exists():
            self.drop()

    def drop(self) -> None:
        with contextlib.suppress(OSError):
            self._path.unlink()


def _line(version: int) -> bytes:
    digits = f"{version:020}"
    return f"{digits} {hashlib.blake2b(digits.encode(), digest_size=8).hexdigest()}\n".encode()


def _version(line: bytes) -> int:
    """0 where it is not what was written."""
    digits = line[:20]
    return int(digits) if digits.isdigit() and _line(int(digits)) == line else 0
