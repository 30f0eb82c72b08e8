"""Files that are there in full or not at all, and still are when the machine fails in the next moment."""

import os
from pathlib import Path


def become(scratch: Path, target: Path) -> None:
    """Let a file that is written take the name of `target`, in place of what had it."""
    sync(scratch)
    scratch.replace(target)
    sync(target.parent)


def sync(path: Path) -> None:
    """A file's content, or a folder's names, are on the disk when this returns."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
