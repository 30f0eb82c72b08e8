"""The lock that makes one process at a time use a GPU, also between users: a file in the system's folder for
temporary files."""

import fcntl
import os
import re
import socket
import stat
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO

from kernelblaster import keeper
from kernelblaster.errors import KernelBlasterError
from kernelblaster.settings import settings

PAUSE_S = 0.2
UUID = re.compile(r"[A-Za-z0-9-]{1,64}")
WEEK_S = 7 * 24 * 3600.0


def lock_gpu(uuid: str, tell: Callable[[str], None]) -> "IO[str] | socket.socket":
    """Locks the GPU with this UUID for this process; closing the returned object unlocks it. If another
    process has the GPU, `tell` is called once with a message for the user, and this call waits until it is
    free. A confined process, which may not open the lock file, has the keeper (the command's trusted process)
    lock it. Raises KernelBlasterError if the lock file cannot be used."""
    if not settings().confined:
        return locked_file(uuid, tell)
    connection = keeper.connected(WEEK_S)
    keeper.checked_reply(keeper.exchange(connection, {"do": "hold", "gpu": uuid}, tell))
    return connection


def locked_file(uuid: str, tell: Callable[[str], None]) -> IO[str]:
    """Opens and locks the lock file of the GPU with this UUID, and returns it; closing it unlocks. While
    another process has the lock, calls `tell` once with a text and waits. Raises KernelBlasterError if `uuid`
    is malformed or the file cannot be used."""
    if not UUID.fullmatch(uuid):
        raise KernelBlasterError(f"{uuid!r} is no GPU.")
    file = _opened(Path(tempfile.gettempdir()) / f"kernelblaster-{uuid}.lock")
    announced = False
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except OSError:
            if not announced:
                file.seek(0)
                tell(f"waiting for the GPU: process {file.read(20).strip()} owns it")
                announced = True
            time.sleep(PAUSE_S)
    file.truncate(0)
    file.write(str(os.getpid()))
    file.flush()
    return file


def _opened(path: Path) -> IO[str]:
    """The lock file at `path`, open for reading and appending; created with mode 0o666 if it is not there.
    Raises KernelBlasterError if it cannot be opened, or if it is a symbolic link, a pipe or a file with a
    second hard link, as other users may write to its folder."""
    flags = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    try:
        try:
            handle = os.open(
                path, flags
            )  # without O_CREAT, which is refused for others' files in such a folder
        except FileNotFoundError:
            handle = os.open(path, flags | os.O_CREAT, 0o666)
    except OSError as error:
        raise KernelBlasterError(
            f"{path}: the lock of the GPU cannot be used: {error.strerror}. Remove it, or name another "
            "folder (TMPDIR) for all who use this GPU."
        ) from error
    about = os.fstat(handle)
    if not stat.S_ISREG(about.st_mode) or about.st_nlink != 1:
        os.close(handle)
        raise KernelBlasterError(f"{path}: is not the lock of a GPU; remove it.")
    if about.st_uid == os.geteuid() and about.st_mode & 0o777 != 0o666:
        os.fchmod(handle, 0o666)
    return os.fdopen(handle, "a+")
