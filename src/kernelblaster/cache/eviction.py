"""Keeps the cache within its size limit in bytes by deleting the least recently used results."""

import contextlib
import fcntl
import os
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

EVERY_S = 3600.0  # between two scans of the whole cache
IN_USE_S = 3600.0  # what was used since then may be in use
LEFT = 0.9  # share of the limit that eviction leaves, so that the next one has little to do
BUILT = ("native", "ptx")  # parts of this program, which long runs keep using
PARTS = "tasks"  # the folder of parts that tasks which are not shipped have for themselves
MARK = ".looked-at"


@dataclass(frozen=True)
class _Result:
    """A cached result: when it was last `used` (seconds since 1970), its size in bytes, its folder."""

    used: float
    bytes: int
    path: Path


def evict_sometimes(root: Path, limit: int) -> None:
    """Runs `evict(root, limit)`, with `limit` in bytes, unless it was run in the last hour (EVERY_S) or
    another process is running it. I/O errors are ignored."""
    with contextlib.suppress(OSError):
        mark = root / MARK
        if mark.exists() and abs(time.time() - mark.stat().st_mtime) < EVERY_S:
            return
        with mark.open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.utime(mark)
            evict(root, limit)


def evict(root: Path, limit: int, in_use_s: float = IN_USE_S) -> int:
    """Deletes results of the cache in `root` if they have more than `limit` bytes together: the least
    recently used first, until at most 90 % of `limit` (LEFT) is used. Returns how many were deleted. Results
    used in the last `in_use_s` seconds are kept, and so is KernelBlaster's own compiled code, such as its
    emulator (the kinds in BUILT)."""
    results = sorted(_results(root), key=lambda result: result.used)
    total, removed = sum(result.bytes for result in results), 0
    if total <= limit:
        return 0
    for result in results:
        if total <= LEFT * limit:
            break
        if result.path.parts[-3] in BUILT or time.time() - result.used < in_use_s:
            continue
        going = result.path.with_name(f".going-{result.path.name}")
        try:
            result.path.rename(going)
        except OSError:  # another process removed it, or holds it
            continue
        shutil.rmtree(going, ignore_errors=True)
        total -= result.bytes
        removed += 1
    return removed


def _results(root: Path) -> list[_Result]:
    """Finds every cached result, of all kinds, in the cache whose top folder is `root`. One that another
    process deletes meanwhile is skipped."""
    results = []
    for path in (*root.glob("*/??/*"), *root.glob(f"{PARTS}/*/*/??/*")):
        with contextlib.suppress(OSError):
            if path.is_dir():
                size = sum(file.stat().st_size for file in path.rglob("*"))
                results.append(_Result(path.stat().st_mtime, size, path))
    return results
