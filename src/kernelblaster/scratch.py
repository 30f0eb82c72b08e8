"""Temporary folders that are removed even if their process was killed: the next process sweeps them.

Each folder is locked (flock) while its owner lives, so that a sweep never removes one in use, whichever
process, container or machine uses it.
"""

import contextlib
import fcntl
import os
import secrets
import shutil
import tempfile
import time
from pathlib import Path
from types import TracebackType

OLD_S = 24 * 3600.0  # without file locks, older folders count as left over
PREFIX = "kernelblaster-scratch-"


class Scratch:
    """A new, locked temporary folder at `path`. Its parent is `parent` (None: the system's folder for
    temporary files), its name begins with `prefix`, and its permissions are `mode` (0o700: for this user
    only). Used as a context, it gives the path and is removed at the end. `close` removes it, too; a folder
    that was renamed meanwhile is left alone."""

    def __init__(self, parent: Path | None = None, prefix: str = PREFIX, mode: int = 0o700) -> None:
        self._handle: int | None = None
        while self._handle is None:
            self.path = Path(parent or tempfile.gettempdir()) / f"{prefix}{secrets.token_hex(8)}"
            self.path.mkdir(mode)
            self._handle = _locked(self.path)
            if self._handle is not None and not self.path.exists():  # a sweep was quicker
                os.close(self._handle)
                self._handle = None

    def close(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def __enter__(self) -> Path:
        return self.path

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def sweep(parent: Path, prefix: str = PREFIX) -> int:
    """Removes temporary folders that killed processes have left in `parent`: those of this user whose names
    begin with `prefix` and that no living process holds. Returns how many."""
    swept = 0
    for path in _own(parent, prefix):
        try:
            handle = _locked(path)
        except OSError:
            continue
        if handle is not None:
            shutil.rmtree(path, ignore_errors=True)
            os.close(handle)
            swept += 1
    return swept


def _own(parent: Path, prefix: str) -> list[Path]:
    """The folders of this user in `parent` whose names begin with `prefix`; empty if `parent` cannot be
    read."""
    folders = []
    with contextlib.suppress(OSError):
        for path in parent.glob(f"{prefix}*"):
            with contextlib.suppress(OSError):
                if path.lstat().st_uid == os.geteuid() and path.is_dir() and not path.is_symlink():
                    folders.append(path)
    return folders


def _locked(path: Path) -> int | None:
    """Try to lock a folder. Returns a file descriptor that holds the lock until it is closed; None if another
    process holds it or the folder is gone. On file systems without locks, a folder counts as held by another
    process until it is OLD_S seconds old."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        return None
    except OSError:  # no locks here: by age
        if 1.0 < time.time() - os.fstat(handle).st_mtime < OLD_S:
            os.close(handle)
            return None
    return handle
