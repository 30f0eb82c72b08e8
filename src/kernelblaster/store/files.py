"""Content-addressed files: named by a digest, written atomically, never changed."""

import hashlib
import os
import secrets
from pathlib import Path

from kernelblaster.durability import replace_durably
from kernelblaster.errors import StoreError

WRITING = ".writing-"


def name_of(text: str) -> str:
    """Returns the name under which a text is stored: the first 32 hexadecimal digits of its SHA-256. Equal
    texts have the same name, so they are stored once."""
    return hashlib.sha256(text.encode()).hexdigest()[:32]


class Files:
    """A folder of texts, each in a file named by the digest of its content; a text that is stored twice
    takes one file."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put(self, text: str) -> str:
        """Stores a text, unless it is stored already. Returns its name, to be given to `get`. The text is on
        the disk (fsync) when this returns. Raises StoreError if it cannot be written."""
        data, name = text.encode(), name_of(text)
        target = self._path(name)
        if not (target.is_file() and target.read_bytes() == data):
            write_whole(target, text)  # missing, or damaged
        return name

    def get(self, name: str) -> str:
        """Returns the text stored under a name that `put` returned. Raises StoreError if it is missing or was
        changed."""
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
    """Writes `text` to the file `target` atomically: it has the old content or the new, and is on the disk
    (fsync) when this returns. By default only its owner can read it; `mode` is subject to the umask. Raises
    StoreError if it cannot be written."""
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
            replace_durably(scratch, target)
        except OSError:
            scratch.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise StoreError(
            f"{target.parent}: cannot write: {error.strerror or error}. What was recorded before is safe."
        ) from error


def sweep_writing(folder: Path) -> None:
    """Deletes temporary files that killed processes left in `folder` and below. Call it only while no other
    process writes to that folder."""
    for left in folder.rglob(f"{WRITING}*"):
        left.unlink(missing_ok=True)
