"""Confines the calling process before it runs the code of task files: Landlock restricts files, signals and
TCP, a seccomp filter other system calls, and of root's capabilities only those that are needed are kept."""

import ctypes
import os
import resource
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from kernelblaster.confinement import capabilities, kernel_settings, landlock, seccomp
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
    """What a confined process may use in addition to the system's own files and programs. `readable`: files
    and folders to read. `programs`: folders whose programs it may run. `folders`: folders of tasks to read,
    without hidden files. `writable`: folders to create and change files in. `emptied`: folders from which it
    may remove empty subfolders and nothing else. `gpu`: it uses the GPU and NVIDIA's tools."""

    readable: tuple[Path, ...] = ()
    programs: tuple[Path, ...] = ()
    folders: tuple[Path, ...] = ()
    writable: tuple[Path, ...] = ()
    emptied: tuple[Path, ...] = ()
    gpu: bool = False


def lacking() -> str:
    """Returns what this system lacks to confine the code of task files (Landlock, seccomp), in words for the
    user; empty if nothing."""
    gaps = []
    if landlock.version() < LEAST_LANDLOCK:
        gaps.append(
            "files cannot be kept from it (no Landlock: needs Linux 5.19, and a container that allows it)"
        )
    if not _filters():
        gaps.append("system calls cannot be filtered (seccomp)")
    return "; ".join(gaps)


def limits() -> str:
    """Returns what the code of task files could still do on this system although it is confined, in words for
    the user; empty if nothing."""
    if landlock.version() >= SIGNALS_SINCE:
        return ""
    return "it can end your other processes (Linux 6.12 keeps it from that)"


def confine(needs: Needs, *, partly: bool = False) -> None:
    """Confines this process and all that it will start, for good: they can use only what `needs` names and
    the system's own parts (docs/security.md). Raises KernelBlasterError if the process has more than one
    thread.

    Unless `partly` is set, also raises KernelBlasterError if the system cannot confine it fully: because
    Landlock or seccomp is missing, or because a process that uses a GPU runs as root and /proc/sys cannot be
    made read-only for it. With `partly`, the process is then confined as far as the system allows.
    """
    threads = len(list(Path("/proc/self/task").iterdir()))
    if threads != 1:
        raise KernelBlasterError(
            f"this process has {threads} threads, and only one can be confined: confine it before PyTorch or "
            "NumPy are imported."
        )
    missing = lacking()
    if missing and not partly:
        raise KernelBlasterError(f"code of tasks cannot be confined on this system: {missing}.")
    if needs.gpu and not kernel_settings.keep_settings() and not partly:
        raise KernelBlasterError(
            "code of tasks cannot be confined on this system: it runs as root, and /proc/sys cannot be made "
            "read-only for it. Run it as another user, or in a container with read-only system paths."
        )
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.umask(OWNER_AND_OTHERS)
    with suppress(OSError):
        capabilities.give_up(tools=needs.gpu)
    if landlock.version() >= LEAST_LANDLOCK:
        _rules(needs).impose()
    if needs.gpu:
        begin_starting(needs.programs)
        if landlock.version() >= LEAST_LANDLOCK:
            landlock.impose_inner()  # what the starter starts is not filtered, so its memory is out of reach
    if _filters():
        seccomp.install(listening=needs.gpu)


def _rules(needs: Needs) -> Ruleset:
    """The Landlock rules for files that grant what `needs` names and the system's own parts; not imposed
    yet."""
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
    """Whether seccomp can be used here: the kernel lets this process filter its system calls, and their
    numbers are known for this architecture."""
    if architecture() is None:
        return False
    allow = ctypes.c_uint32(seccomp.ALLOW)
    asked = ctypes.CDLL(None).syscall(number("seccomp"), ACTION_AVAILABLE, 0, ctypes.byref(allow))
    return int(asked) == 0
