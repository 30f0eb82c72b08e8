"""Makes the kernel's settings under /proc read-only for a process that runs as root. It can then be given
write access to all of /proc without being able to change these settings.

CUDA's driver needs that access: it writes the names of its threads to /proc/self/task/.../comm. Landlock can
only grant whole folders. So everything else that root could write under /proc (/proc/sys,
/proc/sysrq-trigger) is mounted read-only, in a mount namespace of this process and its children.
"""

import ctypes
import os
from pathlib import Path

PROC = Path("/proc")
NEW_MOUNTS = 0x00020000  # CLONE_NEWNS
READ_ONLY, REMOUNT, BIND, RECURSIVE, SLAVE = 1, 32, 4096, 16384, 1 << 19  # of mount(2)
_libc = ctypes.CDLL(None, use_errno=True)


def keep_settings() -> bool:
    """Makes the kernel's settings under /proc (everything but the folders of processes) read-only for this
    process and what it starts, for good. Returns True if none of them can be written afterwards. Does nothing
    and returns True if the process does not run as root, since it can write none of them then. Call it before
    capabilities are given up."""
    if os.geteuid() != 0:
        return True
    open_to_root = _writable()
    if not open_to_root:
        return True
    if _libc.unshare(NEW_MOUNTS) != 0 or not _mount(None, Path("/"), RECURSIVE | SLAVE):
        return False
    for path in open_to_root:
        if not _mount(path, path, BIND) or not _mount(None, path, REMOUNT | BIND | READ_ONLY):
            return False
    return not _writable()


def _writable() -> list[Path]:
    """The entries of /proc, other than processes, that are or may hold something that root can write: those
    on a file system that is not mounted read-only."""
    found = []
    for entry in os.scandir(PROC):
        of_process = entry.name.isdigit() or entry.is_symlink()
        if of_process or not (entry.is_dir() or entry.stat().st_mode & 0o222):
            continue
        if not os.statvfs(entry.path).f_flag & os.ST_RDONLY:
            found.append(Path(entry.path))
    return found


def _mount(source: Path | None, target: Path, flags: int) -> bool:
    named = None if source is None else os.fsencode(source)
    return int(_libc.mount(named, os.fsencode(target), None, flags, None)) == 0
