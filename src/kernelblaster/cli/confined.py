"""Confines a command before it runs code of tasks: it can then reach only the files and devices that it needs
(docs/security.md)."""

import atexit
import hashlib
import os
import tempfile
import warnings
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from kernelblaster import cache, keeper
from kernelblaster.cache.eviction import PARTS
from kernelblaster.cli.options import DeviceName
from kernelblaster.confinement.confine import Needs, confine, lacking
from kernelblaster.confinement.places import TASK_LIKE, is_wide
from kernelblaster.errors import BadTask, KernelBlasterError, StoreError
from kernelblaster.scratch import Scratch
from kernelblaster.settings import mark_confined, settings
from kernelblaster.store.files import write_whole
from kernelblaster.store.pointer import pointer_of
from kernelblaster.store.run import Run, reserve_run
from kernelblaster.store.subject import keeps_shipped_task
from kernelblaster.tasks.catalog import class_in, find, suites_folder

LARGE = 16 << 20  # bytes of a file that is told by its size and time instead of its content
GPU_DEVICES = ("nvidiactl", "nvidia0", "nvidia-uvm")
KINDS = ("candidate", "given", "tmp", "cuda", "inductor", "triton")  # of the cache that tasks take part in


def confine_command(
    tasks: Sequence[str] = (),
    *,
    device: DeviceName | None = "auto",
    reads: Iterable[Path | None] = (),
    fills: Iterable[Path] = (),
    stranger: str = "",
    network: str = "",
) -> None:
    """Confines this process to what the command needs, until it ends. Must be called before anything imports
    PyTorch. Does nothing if Python code called the command, instead of a command line.

    `tasks` are names of tasks as the user gave them; `stranger` is the path of one more file with a task's
    code that the user did not name, such as the copy in a run (empty: none). `reads` are files and folders
    that the command reads, `fills` existing folders that it writes to. `device` is the kind of device that
    the command may use, None if it uses none. `network` says in words what needs the network (a fleet, a
    shared store); empty if nothing does.

    A command that needs the network is not confined. The environment variables that this process hid at its
    start are then set again, except API keys, because reaching a database or other machines may need them.
    With --trust-tasks, the command is not confined either. Raises KernelBlasterError if tasks that are not
    shipped would run without confinement, unless the user gave --unsafe or --trust-tasks, and BadTask if a
    name stands for no task.
    """
    if not keeper.is_running() or settings().confined:
        return
    keeper.start()
    known = settings()
    own = sorted({str(path) for name in tasks for path in _files(name) if not _is_shipped(path)})
    own += [stranger] if stranger else []
    missing = f"{network} needs the network" if network else lacking()
    where = "here" if network else "on this system"
    if network:
        keeper.take_environment()
    if known.trusted:
        keeper.seal()
        return
    if missing and own and not known.unsafe:
        raise KernelBlasterError(
            f"{own[0]}: code of tasks cannot be confined {where}: {missing}. It is not run; where you trust "
            "it, `kernelblaster --trust-tasks COMMAND` runs it as your own."
        )
    if network:
        keeper.seal()
        return
    filled = (*_own_folders(fills), *_cache_part(own))
    needs = Needs(
        readable=(*known.readable, *(Path(path) for path in own), *(path for path in reads if path)),
        programs=tuple(known.cache / kind for kind in cache.OWN),
        folders=tuple({Path(path).parent for path in own}),
        writable=filled,
        emptied=tuple(folder.parent for folder in filled),
        gpu=device != "emulated" and any(Path("/dev", name).exists() for name in GPU_DEVICES),
    )
    if not needs.gpu:
        warnings.filterwarnings("ignore", "CUDA initialization")  # PyTorch finds a GPU that it may not use
    keeper.seal()
    confine(needs, partly=bool(missing))


def confine_to_run(run: Run, *, device: DeviceName | None = None, **more: Any) -> None:
    """Confines this command, like `confine_command`, before it runs the task of which `run` keeps a copy. The
    command may write to the run's folder. `device` is the kind of device that it may use; None means the kind
    on which the run was begun. `more` are further arguments of `confine_command`."""
    device = device or (run.events[0].data.get("device") if run.events else None)
    stranger = "" if keeps_shipped_task(run) else str(run.folder)
    more["fills"] = (run.folder, *more.get("fills", ()))
    more["network"] = more.get("network") or store_of(run.folder)
    confine_command(device=device or "auto", stranger=stranger, **more)


def store_of(folder: Path) -> str:
    """Returns words for a message that name the shared database with the events of the run or bench in
    `folder`; empty if they are kept in the folder."""
    pointer = pointer_of(folder)
    return "" if pointer is None else f"its store {pointer.store}"


def reserved_run(runs: Path) -> Path | None:
    """Makes a new, empty folder for a run under `runs`, before the command is confined to it, and returns its
    path. The folder is removed when the command ends if it is still empty. Does nothing and returns None if
    Python code called the command, instead of a command line."""
    if not keeper.is_running():
        return None
    folder = reserve_run(runs.absolute())
    atexit.register(_remove_empty, folder)
    return folder


def make_folder(folder: Path) -> None:
    """Makes a folder that the command will fill, before the command is confined to it. The folder is removed
    when the command ends if it is still empty. Does nothing if Python code called the command, instead of a
    command line. Raises StoreError if the folder cannot be made."""
    if not keeper.is_running() or folder.is_dir():
        return
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise StoreError(
            f"{folder}: cannot be made: {error.strerror or error}. Name a folder that can be written."
        ) from error
    atexit.register(_remove_empty, folder)


def _remove_empty(folder: Path) -> None:
    with suppress(OSError):
        folder.rmdir()  # refused unless it is empty


def write_output(path: Path, text: str) -> None:
    """Writes `text` to the file `path` that the user named, atomically. A confined command may not write
    there itself. The keeper (its helper process) then does it, but only to a file that was claimed
    (`keeper.claim`) before the command was confined. Raises KernelBlasterError if the file cannot be
    written."""
    if settings().confined:
        keeper.write(path.absolute(), text, 0o666)
    else:
        write_whole(path.absolute(), text, mode=0o666)


def _files(name: str) -> list[Path]:
    """The files of the tasks that a name on the command line stands for (a file, a folder, a task of a
    suite), so that the confined command may read them. For a name like package.module:Class it is the path
    `package.module` in the working folder, which need not exist: what may be read then is the folder. Raises
    BadTask if there is no such task: now, since a confined command may not look for similar names."""
    where, module = class_in(name)
    if module and Path(where).suffix not in (".py", ".pt2"):
        return [Path.cwd() / where]
    return [Path(os.path.realpath(path)) for _, path in find(where)]


def still_there(names: Iterable[str]) -> list[str]:
    """Returns those of `names` that still stand for existing tasks. Used when a bench is continued: the
    command is confined to the files of these tasks, and reports the others as gone."""
    found = []
    for name in names:
        with suppress(BadTask):
            _files(name)
            found.append(name)
    return found


def _is_shipped(path: Path) -> bool:
    return path.is_relative_to(os.path.realpath(suites_folder()))


def _own_folders(folders: Iterable[Path]) -> list[Path]:
    """The real paths of the folders that a command fills. Raises KernelBlasterError for one that is not the
    command's alone (like the home folder), since code of a task could fill it with anything."""
    found = [Path(os.path.realpath(folder)) for folder in folders]
    for folder in found:
        if is_wide(folder):
            raise KernelBlasterError(f"{folder}: is not a folder to fill with results; name one below it.")
    return found


def _digest(own: Sequence[str]) -> str:
    """A hash of the user's tasks and runs whose paths are in `own`: of the paths, their content and that of
    the sources beside them. It names the part of the cache that their code may fill, so that other code later
    at the same path does not find what they left."""
    paths = [Path(path) for path in own]
    files = {path for path in paths if path.is_file()}
    for folder in {path.parent for path in files}:
        files |= set() if is_wide(folder) else {one for one in folder.iterdir() if one.suffix in TASK_LIKE}
    files |= {one for run in paths if run.is_dir() for one in run.glob("task.*")}
    digest = hashlib.sha256("\n".join(own).encode())
    for file in sorted(files):
        with suppress(OSError):  # what cannot be read here cannot be run
            about = file.stat()
            whole = about.st_size <= LARGE
            content = file.read_bytes() if whole else f"{about.st_size} {about.st_mtime_ns}".encode()
            digest.update(f"\n{file}\n{len(content)}\n".encode() + content)
    return digest.hexdigest()[:16]


def _cache_part(own: Sequence[str]) -> list[Path]:
    """Make the part of the cache that the command may fill, with a folder for temporary files, and return its
    folders. Tasks that are not shipped (paths `own`) get a part of their own, since they could put anything
    there."""
    root = settings().cache
    part = root
    if own:
        part = root / PARTS / _digest(own)
    folders = [part / kind for kind in KINDS]
    cache.make_folders([*folders, *(root / kind for kind in cache.OWN)])
    scratch = Scratch(part / "tmp")
    atexit.register(scratch.close)
    mark_confined(part, scratch.path)
    tempfile.tempdir = None  # found anew
    return folders
