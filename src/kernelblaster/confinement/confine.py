"""Confines this process: Landlock for files, other processes and TCP, a filter of system calls for the rest,
and no rights of root that are not needed."""

import ctypes
import os
import resource
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from kernelblaster.confinement import capabilities, landlock, seccomp
from kernelblaster.confinement.landlock import FileAccess, Ruleset
from kernelblaster.confinement.places import grant_folder, grant_system
from kernelblaster.confinement.syscalls import architecture, number
from kernelblaster.confinement.tool_starter import begin_starting
from kernelblaster.errors import KernelBlasterError

LEAST_LANDLOCK = 2  # Linux 5.19; before it, no file could be renamed from one folder to another
SIGNALS_SINCE = landlock.SCOPES_SINCE  # Linux 6.12
ACTION_AVAILABLE = 2
OWNER_AND_OTHERS = 0o022  # the recorder's child, another user, reads what is compiled


@dataclass(frozen=True)
class Needs:
    """What a confined process may use beside the system's own parts: files and folders to read (`readable`),
    folders of `programs` to run,
    `folders` of tasks (without what is hidden in them), folders to fill (`writable`), folders from which only
    empty ones may be removed (`emptied`), and a GPU with NVIDIA's tools."""

    readable: tuple[Path, ...] = ()
    programs: tuple[Path, ...] = ()
    folders: tuple[Path, ...] = ()
    writable: tuple[Path, ...] = ()
    emptied: tuple[Path, ...] = ()
    gpu: bool = False


def lacking() -> str:
    """What this system lacks to confine code of tasks, in words; empty if nothing."""
    gaps = []
    if landlock.version() < LEAST_LANDLOCK:
        gaps.append(
            "files cannot be kept from it (no Landlock: needs Linux 5.19, and a container that allows it)"
        )
    if not _filters():
        gaps.append("system calls cannot be filtered (seccomp)")
    return "; ".join(gaps)


def limits() -> str:
    """What this system cannot keep from code of tasks although it can confine them, in words; empty if
    nothing."""
    if landlock.version() >= SIGNALS_SINCE:
        return ""
    return "it can end your other processes (Linux 6.12 keeps it from that)"


def confine(needs: Needs, *, partly: bool = False) -> None:
    """Confine this process and all that it will start, for good; see docs/security.md for what is left to it.
    It must have one thread. With `partly`, as far as the system allows. Raises KernelBlasterError if there
    are other threads, or something is missing."""
    threads = len(list(Path("/proc/self/task").iterdir()))
    if threads != 1:
        raise KernelBlasterError(
            f"this process has {threads} threads, and only one can be confined: confine it before PyTorch or "
            "NumPy are imported."
        )
    missing = lacking()
    if missing and not partly:
        raise KernelBlasterError(f"code of tasks cannot be confined on this system: {missing}.")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.umask(OWNER_AND_OTHERS)
    with suppress(OSError):
        capabilities.give_up(tools=needs.gpu)
    if landlock.version() >= LEAST_LANDLOCK:
        _rules(needs).impose()
    if needs.gpu:
        begin_starting(needs.programs)
    if _filters():
        seccomp.install(listening=needs.gpu)


def _rules(needs: Needs) -> Ruleset:
    """The rules for files."""
    rules = Ruleset(network=needs.gpu)
    grant_system(rules, gpu=needs.gpu)
    rules.grant(needs.readable, FileAccess.READ)
    rules.grant(needs.programs, FileAccess.RUN)
    for folder in needs.folders:
        grant_folder(rules, folder)
    rules.grant(needs.writable, FileAccess.FILL)
    if needs.gpu:  # NVIDIA's tools and the players under them talk through these
        rules.grant([tempfile.gettempdir()], FileAccess.FILL | FileAccess.MAKE_FIFO | FileAccess.MAKE_SOCK)
    rules.grant(needs.emptied, FileAccess.READ_DIR | FileAccess.REMOVE_DIR)
    return rules


def _filters() -> bool:
    """Whether this process may filter its system calls."""
    if architecture() is None:
        return False
    allow = ctypes.c_uint32(seccomp.ALLOW)
    asked = ctypes.CDLL(None).syscall(number("seccomp"), ACTION_AVAILABLE, 0, ctypes.byref(allow))
    return int(asked) == 0
