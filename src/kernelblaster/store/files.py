"""Files named by their content: written once, whole or not at all, and never changed."""

import hashlib
import os
import secrets
from pathlib import Path

from kernelblaster.errors import StoreError
from kernelblaster.lasting import become

WRITING = ".writing-"


class Files:
    """A folder of texts, each under the digest of its content."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put(self, text: str) -> str:
        """Keep a text; its name. It is on the disk when this returns."""
        data = text.encode()
        name = hashlib.sha256(data).hexdigest()[:32]
        target = self._path(name)
        if not (target.is_file() and target.read_bytes() == data):
            write_whole(target, text)  # again, where it is not what it was
        return name

    def get(self, name: str) -> str:
        """The text of that name; StoreError if it is not there or not what it was."""
        try:
            data = self._path(name).read_bytes()
        except OSError as error:
            raise StoreError(f"{self._path(name)}: {error.strerror or error}") from error
        if hashlib.sha256(data).hexdigest()[:32] != name:
            raise StoreError(f"{self._path(name)}: its content was changed since it was written.")
        return data.decode()

    def _path(self, name: str) -> Path:
        return self._folder / name[:2] / name


def write_whole(target: Path, text: str, *, mode: int = 0o600) -> None:
    """Write a file so that it is there in full or not at all, whatever happens; it is on the disk when
    this returns. Its owner alone can read it; what is for others has a `mode` (less the umask)."""
    scratch = target.with_name(f"{WRITING}{secrets.token_hex(8)}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            try:
                file.write(text.encode())
                file.flush()
            except OSError:
                scratch.unlink(missing_ok=True)
                raise
        try:
            become(scratch, target)
        except OSError:
            scratch.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise StoreError(
            f"{target.parent}: cannot write: {error.strerror or error}. What was recorded before is safe."
        ) from error


def sweep_writing(folder: Path) -> None:
    """Remove what a process that was killed had not finished writing; nobody else may be writing there."""
    for left in folder.rglob(f"{WRITING}*"):
        left.unlink(missing_ok=True)
