"""Grants a confined process the files that it needs: of the system, of Python, of the compilers, and of its
task."""

import os
import shutil
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from kernelblaster.confinement.landlock import FileAccess, Ruleset
from kernelblaster.settings import library_folders, settings

PACKAGE = Path(__file__).parent.parent
SHIPPED = ("suites", "examples", "docs")
PROGRAMS = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64")
CONFIGURATION = (
    *("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "ld.so.preload", "localtime", "timezone", "nsswitch.conf"),
    *("ssl/openssl.cnf", "pki/tls/openssl.cnf", "crypto-policies", "os-release", "alternatives"),
)
ABOUT_KERNEL = (
    *("cpuinfo", "meminfo", "stat", "version", "uptime", "loadavg", "filesystems", "devices", "modules"),
    *("vmstat", "sys/kernel", "sys/vm", "sys/fs", "driver/nvidia", "self"),
)
ABOUT_DEVICES = ("devices", "bus", "class", "fs/cgroup", "kernel/mm", "module")
PLAIN_DEVICES = ("null", "zero", "full", "random", "urandom")
SYSTEM = (
    *(
        "/",
        "/boot",
        "/dev",
        "/etc",
        "/home",
        "/media",
        "/mnt",
        "/opt",
        "/proc",
        "/root",
        "/run",
        "/srv",
        "/sys",
    ),
    *("/usr", "/usr/local", "/var", "/var/lib", "/var/run"),
)
MOST_ENTRIES = 50_000
TASK_LIKE = (".py", ".cu", ".cuh", ".h", ".pt2")


def grant_system(rules: Ruleset, *, gpu: bool) -> None:
    """Adds to `rules` the right to read and run what PyTorch, the compilers and KernelBlaster need, and to
    use devices without content (/dev/null, /dev/urandom).

    With `gpu`, adds the right to use NVIDIA's devices and /dev/shm, and to read and write files in all of
    /proc: CUDA's driver reads the folder of each process there, and writes the names of its threads. Call
    `keep_settings` (kernel_settings.py) before, so that a process of root cannot change the kernel's settings
    in /proc.
    """
    rules.grant(PROGRAMS, FileAccess.RUN)
    rules.grant((Path("/etc", name) for name in CONFIGURATION), FileAccess.READ)
    rules.grant((Path("/proc", name) for name in ABOUT_KERNEL), FileAccess.READ)
    rules.grant((Path("/sys", name) for name in ABOUT_DEVICES), FileAccess.READ)
    rules.grant((Path("/dev", name) for name in PLAIN_DEVICES), FileAccess.USE_DEVICE)
    python = list(_python_folders())
    rules.grant(python, FileAccess.RUN)
    rules.grant(_tool_folders(), FileAccess.RUN)
    for folder in (Path(path or Path.cwd()) for path in sys.path):
        if not any(folder.is_relative_to(granted) for granted in (*python, *map(Path, PROGRAMS))):
            grant_folder(rules, folder)
    if gpu:
        rules.grant(Path("/dev").glob("nvidia*"), FileAccess.READ | FileAccess.USE_DEVICE)
        rules.grant(["/proc"], FileAccess.READ | FileAccess.WRITE_FILE | FileAccess.TRUNCATE)
        rules.grant(["/dev/shm"], FileAccess.FILL)


def grant_folder(rules: Ruleset, folder: Path) -> None:
    """Adds to `rules` the right to read what is in `folder` and below, except symbolic links and hidden
    entries (`.git`, `.env`), of which only the names are visible. In a folder that holds more than one
    project (the home folder, /tmp), only the source files directly in it are granted. Does nothing if the
    folder does not exist. After 50,000 entries (MOST_ENTRIES), further folders are left out."""
    if not is_wide(folder):
        whole, parts = _shown_in(folder, [MOST_ENTRIES])
        rules.grant([folder], FileAccess.READ_DIR)
        rules.grant([folder] if whole else parts, FileAccess.READ, follow=False)
        return
    with suppress(OSError):
        sources = [entry.path for entry in os.scandir(folder) if _is_source(entry)]
        rules.grant(sources, FileAccess.READ, follow=False)


def _is_source(entry: "os.DirEntry[str]") -> bool:
    return not entry.name.startswith(".") and entry.name.endswith(TASK_LIKE) and entry.is_file()


def _shown_in(folder: Path, left: list[int]) -> tuple[bool, list[Path]]:
    """Looks into `folder`. Returns (True if nothing in it or below is hidden, the paths in it to which access
    may be granted: files, and folders without anything hidden). `left` is a list of one number: how many
    entries may still be looked at, beyond which entries count as hidden. (False, []) if the folder cannot be
    read."""
    whole, shown = True, []
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return False, []
    left[0] -= len(entries)
    for entry in entries:
        if entry.name.startswith(".") or left[0] < 0:
            whole = False
        elif entry.is_dir(follow_symlinks=False):
            inside_whole, parts = _shown_in(Path(entry.path), left)
            shown += [Path(entry.path)] if inside_whole else parts
            whole = whole and inside_whole
        else:
            shown.append(Path(entry.path))
    return whole, shown


def is_wide(folder: Path) -> bool:
    """Whether a folder holds more than one project: a home folder or one above it, one that all users share
    (/tmp), or one of the system's own. Also true if the folder cannot be inspected."""
    resolved = Path(os.path.realpath(folder))
    home = Path(os.path.realpath(Path.home()))
    if resolved in (home, *home.parents) or resolved.parent == Path("/home") or str(resolved) in SYSTEM:
        return True
    try:
        mode = resolved.stat().st_mode
    except OSError:
        return True
    return bool(mode & stat.S_IWOTH and mode & stat.S_ISVTX)


def _python_folders() -> Iterator[Path]:
    """Yields the folders of this Python, of its packages and of this program."""
    yield from (Path(folder) for folder in {sys.prefix, sys.base_prefix, sys.exec_prefix})
    yield PACKAGE
    for name in SHIPPED:
        inside = PACKAGE / name
        yield inside if inside.is_dir() else PACKAGE.parents[1] / name


def _tool_folders() -> Iterator[Path]:
    """Yields the folders of nvcc with its toolkit, of the host compiler, of ncu and compute-sanitizer, and of
    the libraries that the environment names."""
    known = settings()
    tools = (known.nvcc, known.ncu, known.sanitizer, shutil.which("g++"), shutil.which("gcc"))
    yield from _homes(tool for tool in tools if tool)
    yield Path("/opt/nvidia")  # where CUDA's packages put the profiler that `ncu` in the toolkit starts
    yield from (folder for folder in library_folders() if not is_wide(folder))


def _homes(tools: Iterable[str]) -> Iterator[Path]:
    """For each tool's path, the folder that it was installed in (the one that holds its `bin`); the path of
    the tool itself if it is in no `bin`, or that folder holds more than one project (`is_wide`)."""
    for tool in tools:
        path = Path(os.path.realpath(tool))
        home = path.parent.parent
        yield home if path.parent.name == "bin" and not is_wide(home) else path
