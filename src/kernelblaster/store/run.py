"""A run, the record of one search: a folder with a log of its events, and with files for large texts."""

import contextlib
import json
import re
import secrets
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

from kernelblaster.durability import sync
from kernelblaster.errors import StoreError
from kernelblaster.store.events import EventLog, RunEvent, first_event, open_locked
from kernelblaster.store.files import Files, sweep_writing
from kernelblaster.store.pointer import POINTER, StorePointer, pointer_of

if TYPE_CHECKING:  # SQLAlchemy is needed for shared runs only
    from kernelblaster.store.database_log import DatabaseFiles, DatabaseLog

LOG = "events.jsonl"
STEERING = "steering.jsonl"  # what people ask of the search, see store/steering.py
LAST = "last"  # names the latest run
LEASES = ("leases.db", "leases.db-wal", "leases.db-shm")
RESERVED = re.compile(r"\d{8}-\d{6}-[0-9a-f]{6}")
RESERVED_S = 3600.0
DECISIONS = {
    "theta",
    "choice",
    "batch",
    "steps",
    "update",
}  # kinds of events that every search asks for again


@dataclass(frozen=True)
class SharedRuns:
    """Where new runs are kept: in the shared store (database) at this address, as parts of `parent` (the id
    of a bench there) if given."""

    store: str
    parent: str | None = None


class ReadableRun(Protocol):
    """Interface of a run that can be read: an open one (`Run`), or one that another process is writing
    (`FollowedRun`)."""

    @property
    def name(self) -> str: ...

    @property
    def folder(self) -> Path: ...

    @property
    def events(self) -> Sequence[RunEvent]: ...

    @property
    def files(self) -> "Files | DatabaseFiles": ...


class Run:
    """An open run in a folder: its `events`, and its `files` for large texts. Its events have everything
    needed to continue it. What is recorded (`once`) is not done again, so a run that was killed and continued
    ends like one that was not. One process at a time may open it for `writing`. `opened` is the time of
    opening, in seconds since 1970. Raises StoreError if there is no run, it is damaged, or another process is
    writing."""

    def __init__(self, folder: Path, *, writing: bool) -> None:
        self.folder = folder
        pointer = pointer_of(folder)
        self.files: Files | DatabaseFiles
        self._log: EventLog | DatabaseLog
        self._lock: BinaryIO | None = None  # of a shared run: shows this machine who works on it
        if pointer is None:
            self.files = Files(folder / "files")
            self._log = EventLog(folder / LOG, writing=writing)
        else:
            self._lock = open_locked(folder / POINTER) if writing else None
            self.files, self._log = self._in_store(pointer, writing)
        if writing:
            sweep_writing(folder)
        self._known = {(e.kind, e.key): e for e in self._log.events if e.key}
        self._ahead = {key for key in self._known if key[0] in DECISIONS}
        self.opened = time.time()

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def id(self) -> str:
        """The identity of the run, whatever its folder is called; a copy of the folder has the same. For runs
        of old versions, which recorded no id, it is their name."""
        return (self.events[0].id if self.events else None) or self.name

    @property
    def events(self) -> list[RunEvent]:
        return self._log.events

    def append(self, kind: str, **data: Any) -> RunEvent:
        """Appends an event of this `kind` with this JSON data to the run's log, and returns it. An equal
        event may be there already; `once` is for what must be recorded only once."""
        return self._log.append(kind, **data)

    def once(
        self, kind: str, key: str, compute: Callable[[], dict[str, Any]], *, lasting: bool = True
    ) -> dict[str, Any]:
        """Returns the data recorded for (kind, key). If there is none, calls `compute` and records what it
        returns, which must be JSON data. The result is what was read back from JSON, so tuples become lists.
        By default the record is on the disk when this returns; if not `lasting`, a crash of the machine may
        lose it, and it is then computed again."""
        event = self._known.get((kind, key))
        self._ahead.discard((kind, key))
        if event is None:
            data = json.loads(json.dumps(compute()))
            event = self._known[(kind, key)] = self._log.append(kind, key, lasting=lasting, **data)
        return event.data

    def conclude(self, kind: str, compute: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Records how the search ended. If there is an event of this kind and no candidate was judged after
        it, returns its data. Otherwise calls `compute`, records what it returns as a new event, and returns
        that. So a run whose budget was raised after its end can end again."""
        for event in reversed(self.events):
            if event.kind == kind:
                return event.data
            if event.kind == "evaluation":
                break
        return self.append(kind, **json.loads(json.dumps(compute()))).data

    def recorded(self, kind: str, key: str) -> dict[str, Any] | None:
        """Returns the data that `once` has recorded in this run under (kind, key), as JSON data; None if it
        has recorded nothing."""
        event = self._known.get((kind, key))
        return None if event is None else event.data

    @property
    def caught_up(self) -> bool:
        """Whether the run has repeated all its recorded decisions. A run that is continued first repeats the
        decisions that earlier processes recorded (events of the kinds in DECISIONS), by asking `once` for
        each. The property is False while some of these are left, and True once new decisions are made. It is
        always True for a new run."""
        return not self._ahead

    def _in_store(self, pointer: StorePointer, writing: bool) -> "tuple[DatabaseFiles, DatabaseLog]":
        """Opens the files and the log of a run in the shared store (database) that `pointer` names, for
        `writing` or only to read. If it cannot be opened, the lock of the run's folder is released."""
        from kernelblaster.store.database_log import DatabaseFiles, DatabaseLog

        try:
            store = pointer.open()
            return DatabaseFiles(store), DatabaseLog(store, pointer.id, writing=writing)
        except BaseException:
            self._unlock()
            raise

    def _unlock(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def close(self) -> None:
        self._log.close()
        self._unlock()

    def __enter__(self) -> "Run":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def create_run(root: Path, *, kept: SharedRuns | None = None, **about: Any) -> Run:
    """Begins a new run in a new folder under `root`, whose name begins with the time, and returns the run,
    open for writing. `about` is the data of its first event. With `kept`, its events and files are in that
    shared store (database)."""
    return begin_run(_new_folder(root), kept=kept, **about)


def reserve_run(root: Path) -> Path:
    """Makes an empty folder for a new run under `root`, and returns its path; `begin_run` later begins the
    run in it. Also removes folders that were made so and were never begun, if they are empty and more than an
    hour old, such as those of commands that were killed. Raises StoreError if the folder cannot be made."""
    folder = _new_folder(root)
    _make(folder)
    for left in root.iterdir():
        with contextlib.suppress(OSError):
            if RESERVED.fullmatch(left.name) and time.time() - left.stat().st_mtime > RESERVED_S:
                left.rmdir()  # refused unless it is empty
    return folder


def _new_folder(root: Path) -> Path:
    return root / (time.strftime("%Y%m%d-%H%M%S-") + secrets.token_hex(3))


def _make(folder: Path) -> None:
    """Creates a run's folder, and those above it, so that only the owner can read it, since runs hold
    prompts. Raises StoreError if that fails."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise _unwritable(folder, error) from error


def _unwritable(folder: Path, error: OSError) -> StoreError:
    return StoreError(
        f"{folder.parent}: cannot make a run there: {error.strerror or error}. "
        "Name a folder that can be written."
    )


def begin_run(folder: Path, *, kept: SharedRuns | None = None, **about: Any) -> Run:
    """Begins a new run in `folder`, which is created if needed, and returns the run, open for writing.
    `about` is the data of its first event. With `kept`, its events and files are in that shared store
    (database). A folder whose first event was cut off counts as empty. Raises StoreError if the folder holds
    a run already, or cannot be written."""
    _make(folder)
    try:
        if kept is None:
            (folder / LOG).touch(mode=0o600)
        else:
            from kernelblaster.store.shared_runs import point_to

            point_to(folder, kept.store, kept.parent)
    except OSError as error:
        raise _unwritable(folder, error) from error
    run = Run(folder, writing=True)
    if run.events:
        run.close()
        raise StoreError(f"{folder}: holds something else already; name another folder.")
    run.append("created", **about)
    with contextlib.suppress(OSError):  # some file systems know no such thing
        sync(folder)
        sync(folder.parent)
    return run


def discard_unbegun(run: Run) -> bool:
    """Closes and deletes a run in which nothing has happened yet: no model was asked, nothing judged, nothing
    learned. Returns whether it was deleted. It is kept if its folder has files that are not the run's own."""
    own = {LOG, POINTER, STEERING, "files", "task.py", "task.cu", *LEASES}
    begun = {event.kind for event in run.events} - {"created", "task", "device"}
    if begun or {path.name for path in run.folder.iterdir()} - own:
        return False
    run.close()
    shutil.rmtree(run.folder, ignore_errors=True)
    return True


def open_run(root: Path, name: str | Path, *, writing: bool = False) -> Run:
    """Opens a run and returns it. `name` is its name under `root`, a unique prefix of that, `last` for the
    latest run there, or the path of its folder anywhere. With `writing`, the run can be continued; otherwise
    it is only read. Raises StoreError if there is none, several match, or it is damaged."""
    return Run(_folder_of(root, str(name)), writing=writing)


def _folder_of(root: Path, name: str) -> Path:
    """Finds a run's folder under `root` by what the user typed: its name, a unique beginning of it, `last`,
    or a path. Raises StoreError if there is none or several match."""
    folders = run_folders(root)
    matches = [folder for folder in folders if folder.name.startswith(name)]
    exact = [folder for folder in matches if folder.name == name]
    if len(exact or matches) == 1:
        return (exact or matches)[0]
    if name == LAST and folders:
        return folders[-1]
    if name and holds_run(Path(name)):
        return Path(name).absolute()
    if matches and name:
        raise StoreError(f"{name} may mean {', '.join(folder.name for folder in matches)}.")
    if name == LAST:
        raise StoreError(f"there is no run in {root} yet; `kernelblaster optimize TASK` makes one.")
    raise StoreError(f"there is no run {name} in {root}.")


def run_folders(root: Path) -> list[Path]:
    """Returns the folders of all runs directly under `root`, sorted by name, which begins with the time: the
    oldest first."""
    return sorted(folder for folder in root.glob("*") if holds_run(folder))


def holds_run(folder: Path) -> bool:
    """Returns whether there is a run in this folder: a log of events, or a file that says which shared store
    (database) has it."""
    return (folder / LOG).is_file() or (folder / POINTER).is_file()


def first_event_of(folder: Path) -> RunEvent | None:
    """Returns the first event of the run in a folder, read without the rest, which describes task and
    settings. None if it cannot be read or is incomplete."""
    pointer = pointer_of(folder)
    if pointer is None:
        return first_event(folder / LOG)
    from kernelblaster.store.database_log import first_stored_event

    return first_stored_event(pointer.open(), pointer.id)
