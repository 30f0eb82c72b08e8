"""Crash-safe file writes: atomic replacement, and fsync of files and folders."""

import os
from pathlib import Path


def replace_durably(scratch: Path, target: Path) -> None:
    """Atomically give `scratch`, a written file, the name `target`, replacing any file of that name. The
    content and the new name are on the disk when this returns. Both must be on the same file system."""
    sync(scratch)
    scratch.replace(target)
    sync(target.parent)


def sync(path: Path) -> None:
    """Waits until a file's content, or a folder's list of names, is on the disk (fsync), so that it survives
    a crash of the machine."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
