"""What every command does first: it removes what killed processes have left, and raises resource limits."""

import contextlib
import resource
import socket
import tempfile
from pathlib import Path

from kernelblaster import keeper
from kernelblaster.cache import sweep_cache
from kernelblaster.errors import KernelBlasterError
from kernelblaster.scratch import sweep

STOPPED = 130  # exit code of a command that a person has stopped
FILES = 256  # that a command may have open at once
MEMORY_BYTES = 1_900_000_000  # of address space; importing PyTorch takes most of it


def prepare() -> None:
    """Raises the soft limits of this process to 256 open files (FILES) and 1.9 GB of address space
    (MEMORY_BYTES) if they are lower, and removes what killed processes have left. Raises KernelBlasterError
    if a hard limit does not allow that."""
    _allow(resource.RLIMIT_NOFILE, FILES, "open {most} files at once", f"ulimit -n {FILES}")
    _allow(resource.RLIMIT_AS, MEMORY_BYTES, "use {most} bytes of memory", f"ulimit -v {MEMORY_BYTES >> 10}")
    with contextlib.suppress(FileNotFoundError):  # no such folder can be written: then nothing is left in one
        sweep(Path(tempfile.gettempdir()))
    sweep_cache()
    keeper.use(_serve)


def _serve(door: socket.socket, hidden: int) -> None:
    """What the keeper's process (the helper of confined commands) runs, see `keep`: it serves requests from
    the socket `door`; `hidden` is the descriptor of what the command hid, -1 if nothing."""
    from kernelblaster.keeping.keeper_process import keep

    keep(door, hidden)


def _allow(kind: int, needed: int, what: str, how: str) -> None:
    """Raise the soft limit of the resource `kind` to `needed`, if it is lower. Raises KernelBlasterError if
    the hard limit does not allow it; `what` and `how` (the remedy) are for the message."""
    now, most = resource.getrlimit(kind)
    if now == resource.RLIM_INFINITY or now >= needed:
        return
    if most != resource.RLIM_INFINITY and most < needed:
        raise KernelBlasterError(
            f"this process may {what.format(most=most)}, and needs {needed}: allow it more ({how})."
        )
    resource.setrlimit(kind, (needed, most))
