"""Has the kernel kill a process when its parent ends, so that no worker outlives the command."""

import ctypes
import multiprocessing
import os
import signal

PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """To be called first in a process of `multiprocessing`: the kernel kills it when its parent ends, by
    whatever means. Does not return if the parent has ended already."""
    parent = multiprocessing.parent_process()
    bind_to_parent(parent.pid if parent is not None and parent.pid else os.getppid())


def bind_to_parent(parent: int) -> None:
    """Has the kernel kill this process when its parent ends; `parent` is the parent's process id. Does not
    return if the parent has ended already."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if parent != os.getppid():
        os._exit(1)
