"""The cache stays within its size: what was not used for longest goes first."""

import contextlib
import fcntl
import os
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

EVERY_S = 3600.0  # between two looks at the whole cache
IN_USE_S = 3600.0  # what was used since then may be in use
LEFT = 0.9  # of the limit, so that the next look finds little to do
BUILT = ("native", "ptx")  # parts of this program; long runs go on using them
MARK = ".looked-at"


@dataclass(frozen=True)
class _Result:
    used: float
    bytes: int
    path: Path


def evict_sometimes(root: Path, limit: int) -> None:
    """Look at the whole cache if nobody has for an hour. Whatever hinders this is no reason to stop."""
    with contextlib.suppress(OSError):
        mark = root / MARK
        if mark.exists() and abs(time.time() - mark.stat().st_mtime) < EVERY_S:
            return
        with mark.open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.utime(mark)
            evict(root, limit)


def evict(root: Path, limit: int, in_use_s: float = IN_USE_S) -> int:
    """Remove results, those that were not used for longest first, until the cache is within its limit (in
    bytes) again; how many. What was used of late stays."""
    found = sorted(_results(root), key=lambda one: one.used)
    total, removed = sum(one.bytes for one in found), 0
    if total <= limit:
        return 0
    for one in found:
        if total <= LEFT * limit:
            break
        if one.path.parts[-3] in BUILT or time.time() - one.used < in_use_s:
            continue
        going = one.path.with_name(f".going-{one.path.name}")
        with contextlib.suppress(OSError):
            one.path.rename(going)
        shutil.rmtree(going, ignore_errors=True)
        total -= one.bytes
        removed += 1
    return removed


def _results(root: Path) -> list[_Result]:
    found = []
    for path in root.glob("*/??/*"):
        with contextlib.suppress(OSError):
            if path.is_dir():
                size = sum(file.stat().st_size for file in path.rglob("*"))
                found.append(_Result(path.stat().st_mtime, size, path))
    return found
