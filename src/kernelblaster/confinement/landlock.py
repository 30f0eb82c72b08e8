"""Landlock: the kernel's access control that any process may impose on itself and its children (Linux 5.13).

Called through libc's `syscall`, since no library is needed for three system calls. A rule grants rights on a
file, or on a folder and everything below it; what no rule grants is refused, also to root.
"""

import contextlib
import ctypes
import os
from collections.abc import Iterable
from enum import IntFlag
from pathlib import Path

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446  # the numbers of all architectures
VERSION, PATH_BENEATH = 1, 1
PR_SET_NO_NEW_PRIVS = 38
TCP = 0b11  # binding, connecting
SCOPES = 0b11  # abstract Unix sockets, signals

_libc = ctypes.CDLL(None, use_errno=True)


class FileAccess(IntFlag):
    """Rights on files and folders, as flags with the values that Linux gives them. The last four are
    combinations: READ (files and folders), RUN (also programs), USE_DEVICE (read and write a device), FILL
    (create, change and remove files and folders)."""

    EXECUTE = 1 << 0
    WRITE_FILE = 1 << 1
    READ_FILE = 1 << 2
    READ_DIR = 1 << 3
    REMOVE_DIR = 1 << 4
    REMOVE_FILE = 1 << 5
    MAKE_CHAR = 1 << 6
    MAKE_DIR = 1 << 7
    MAKE_REG = 1 << 8
    MAKE_SOCK = 1 << 9
    MAKE_FIFO = 1 << 10
    MAKE_BLOCK = 1 << 11
    MAKE_SYM = 1 << 12
    REFER = 1 << 13  # move or link to another folder
    TRUNCATE = 1 << 14
    IOCTL_DEV = 1 << 15

    READ = READ_FILE | READ_DIR
    RUN = READ | EXECUTE
    USE_DEVICE = READ_FILE | WRITE_FILE | TRUNCATE | IOCTL_DEV
    FILL = READ | WRITE_FILE | REMOVE_DIR | REMOVE_FILE | MAKE_DIR | MAKE_REG | REFER | TRUNCATE


OF_FILES = (
    FileAccess.EXECUTE
    | FileAccess.WRITE_FILE
    | FileAccess.READ_FILE
    | FileAccess.TRUNCATE
    | FileAccess.IOCTL_DEV
)
ADDED = {2: FileAccess.REFER, 3: FileAccess.TRUNCATE, 5: FileAccess.IOCTL_DEV}  # by the version that added it
TCP_SINCE, SCOPES_SINCE = 4, 6


class _Ruleset(ctypes.Structure):
    _fields_ = [("files", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64)]


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"
    _fields_ = [("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32)]


def version() -> int:
    """The kernel's version of Landlock (its access control for files); 0 if it has none, or it is turned off
    or refused."""
    return max(0, int(_libc.syscall(CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(VERSION))))


class Ruleset:
    """Landlock rules that are being collected, until `impose` puts them on this process. `known` are the
    rights that this kernel can withhold. With `network`, TCP is left as it is; otherwise it is refused if the
    kernel can do that (from version 4 of Landlock on)."""

    def __init__(self, *, network: bool = False) -> None:
        known = FileAccess.REFER - 1
        here = version()
        for since, access in ADDED.items():
            known |= access if here >= since else 0
        self.known = FileAccess(known)
        about = _Ruleset(
            known, 0 if network or here < TCP_SINCE else TCP, SCOPES if here >= SCOPES_SINCE else 0
        )
        size = ctypes.sizeof(about) if here >= SCOPES_SINCE else 16 if here >= TCP_SINCE else 8
        self._handle = _checked(_libc.syscall(CREATE_RULESET, ctypes.byref(about), ctypes.c_size_t(size), 0))

    def grant(self, paths: Iterable[Path | str], access: FileAccess, *, follow: bool = True) -> None:
        """Grants the rights `access` on these `paths`, files or folders. Paths that do not exist or cannot be
        inspected are skipped; so are symbolic links, unless `follow` is set."""
        for path in paths:
            with contextlib.suppress(OSError):
                handle = os.open(path, os.O_PATH | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW))
                try:
                    self._add(handle, access)
                finally:
                    os.close(handle)

    def _add(self, handle: int, access: FileAccess) -> None:
        """Grants the rights `access` on the file or folder behind the open descriptor `handle`; does nothing
        if that is a symbolic link. Raises OSError if the kernel refuses the rule."""
        kind = os.fstat(handle).st_mode >> 12
        if kind == 0o12:
            return
        allowed = access & self.known if kind == 0o4 else access & self.known & OF_FILES
        rule = _Beneath(allowed, handle)
        if allowed:
            _checked(_libc.syscall(ADD_RULE, self._handle, PATH_BENEATH, ctypes.byref(rule), 0))

    def impose(self) -> None:
        """Confine the calling thread and whatever it starts from now on to these rules, which cannot be
        undone. Raises OSError if the kernel refuses."""
        try:
            _checked(_libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
            _checked(_libc.syscall(RESTRICT_SELF, self._handle, 0))
        finally:
            os.close(self._handle)


def impose_inner() -> None:
    """Puts the calling thread, and whatever it starts from now on, into a further Landlock domain, nested in
    the present one. From there it cannot trace processes that were started before, nor write to their memory;
    all its other rights stay. Raises OSError if the kernel refuses."""
    about = _Ruleset(FileAccess.REFER, 0, 0)  # withheld by any rules that do not grant it
    handle = _checked(_libc.syscall(CREATE_RULESET, ctypes.byref(about), ctypes.c_size_t(8), 0))
    root = os.open("/", os.O_PATH | os.O_CLOEXEC)
    try:
        rule = _Beneath(FileAccess.REFER, root)
        _checked(_libc.syscall(ADD_RULE, handle, PATH_BENEATH, ctypes.byref(rule), 0))
        _checked(_libc.syscall(RESTRICT_SELF, handle, 0))
    finally:
        os.close(root)
        os.close(handle)


def _checked(result: int) -> int:
    """Turns the C result of a system call into an int. Raises OSError with the call's errno if it is
    negative."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return int(result)
