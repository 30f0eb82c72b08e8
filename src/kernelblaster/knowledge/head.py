"""Keeps a small file in the same folder as a knowledge base's SQLite file, which says what version has been
written last.

SQLite keeps the latest writes in its log (`-wal`) until the last process closes the database. If a process is
killed, the log stays, and SQLite silently drops everything in it that follows a damaged record. The small
file then tells which version should be there.
"""

import contextlib
import fcntl
import hashlib
import os
from pathlib import Path

BESIDE = ("-wal", "-shm", "-journal", "-head")
"""What may lie beside the file of a knowledge base, by the end of its name."""


class Head:
    """A small file in the folder of the SQLite file `file`, which says what version of the knowledge base was
    written last. When the knowledge base is opened later and SQLite has only an earlier version, SQLite has
    silently dropped changes."""

    def __init__(self, file: Path) -> None:
        self._path, self._log = Path(f"{file}-head"), Path(f"{file}-wal")

    def read(self) -> int:
        """Returns the latest version that is known to have been written; 0 if the small file is missing or
        damaged."""
        try:
            return _version(self._path.read_bytes())
        except OSError:
            return 0

    def reach(self, version: int) -> None:
        """Notes in the small file that `version` has been written, unless a later version is noted there
        already. I/O errors are ignored: without this file only the check for lost writes is weaker."""
        with contextlib.suppress(OSError):
            handle = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX)
                if _version(os.pread(handle, 64, 0)) < version:
                    os.pwrite(handle, _line(version), 0)
            finally:
                os.close(handle)

    def forget(self) -> None:
        """Deletes the small file if SQLite's write-ahead log no longer exists, since everything is then in
        the database file itself."""
        if not self._log.exists():
            self.drop()

    def drop(self) -> None:
        """Deletes the small file, for example because the knowledge base is replaced. Does nothing if it does
        not exist or cannot be deleted."""
        with contextlib.suppress(OSError):
            self._path.unlink()


def _line(version: int) -> bytes:
    """The text of the note beside the database file: `version` in 20 digits, then its checksum."""
    digits = f"{version:020}"
    return f"{digits} {hashlib.blake2b(digits.encode(), digest_size=8).hexdigest()}\n".encode()


def _version(line: bytes) -> int:
    """The version that the text of a note (`line`) tells; 0 if it is incomplete or its checksum is wrong."""
    digits = line[:20]
    return int(digits) if digits.isdigit() and _line(int(digits)) == line else 0
