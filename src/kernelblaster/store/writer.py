"""`writer_of` finds the process that works on a run: the one that holds the lock of the run's log. It is
looked up in /proc/locks, without trying to take the lock."""

import os
from pathlib import Path

from kernelblaster.store.pointer import POINTER
from kernelblaster.store.run import LOG

LOCKS = Path("/proc/locks")


def lock_holders() -> dict[tuple[int, int], int] | None:
    """Returns the ids of processes that hold exclusive file locks (flock), by (device number, inode) of the
    locked file. None if the system does not provide this. Processes of other containers are not seen."""
    try:
        text = LOCKS.read_text()
    except OSError:
        return None
    holders: dict[tuple[int, int], int] = {}
    for line in text.splitlines():
        words = line.split()  # 5: FLOCK ADVISORY WRITE 13851 fe:00:5316636 0 EOF
        if len(words) < 6 or words[1] != "FLOCK" or words[3] != "WRITE":
            continue
        major, minor, inode = words[5].split(":")
        holders[os.makedev(int(major, 16), int(minor, 16)), int(inode)] = int(words[4])
    return holders


def writer_of(folder: Path, holders: dict[tuple[int, int], int] | None = None) -> int | None:
    """Returns the id of the process on this machine that works on the run in `folder`. None if there is none,
    or if it cannot be seen: a run in a shared store may be worked on from another machine. `holders` is the
    result of `lock_holders`; None: it is called here."""
    known = lock_holders() if holders is None else holders
    try:
        shared = folder / POINTER
        about = (shared if shared.exists() else folder / LOG).stat()
    except OSError:
        return None
    return (known or {}).get((about.st_dev, about.st_ino))
