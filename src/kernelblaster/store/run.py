"""One run: its events and its files, in a folder of its own."""

import contextlib
import json
import secrets
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kernelblaster.errors import StoreError
from kernelblaster.lasting import sync
from kernelblaster.store.events import EventLog, RunEvent
from kernelblaster.store.files import Files, sweep_writing

LOG = "events.jsonl"
LAST = "last"  # names the latest run


class Run:
    """A run that is open. What it needs to be continued is in its events: a step that was recorded is
    not done again, so that a run that was killed ends as one that was not."""

    def __init__(self, folder: Path, *, writing: bool) -> None:
        self.folder = folder
        self.files = Files(folder / "files")
        self._log = EventLog(folder / LOG, writing=writing)
        if writing:
            sweep_writing(folder)
        self._known = {(e.kind, e.key): e for e in self._log.events if e.key}

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def id(self) -> str:
        """What this run is known by, whatever its folder is called: a copy of it is the same run."""
        return (self.events[0].id if self.events else None) or self.name

    @property
    def events(self) -> list[RunEvent]:
        return self._log.events

    def append(self, kind: str, **data: Any) -> RunEvent:
        """Record that something happened."""
        return self._log.append(kind, **data)

    def once(
        self, kind: str, key: str, compute: Callable[[], dict[str, Any]], *, lasting: bool = True
    ) -> dict[str, Any]:
        """What `compute` returned the first time, in this process or in one before it. The result is
        what JSON makes of it either way. What can be computed again need not be `lasting`: a machine
        that fails may lose it."""
        found = self._known.get((kind, key))
        if found is None:
            data = json.loads(json.dumps(compute()))
            found = self._known[(kind, key)] = self._log.append(kind, key, lasting=lasting, **data)
        return found.data

    def close(self) -> None:
        self._log.close()

    def __enter__(self) -> "Run":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def create_run(root: Path, **about: Any) -> Run:
    """A new run under `root`; `about` is its first event."""
    return begin_run(root / (time.strftime("%Y%m%d-%H%M%S-") + secrets.token_hex(3)), **about)


def begin_run(folder: Path, **about: Any) -> Run:
    """A new run in this folder; one that was killed before its first event was whole counts as none. Only its
    owner can look into it: what people ask of models is in it."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        (folder / LOG).touch(mode=0o600)
    except OSError as error:
        raise StoreError(
            f"{folder.parent}: cannot make a run there: {error.strerror or error}. "
            "Name a folder that can be written."
        ) from error
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
    """Remove a run that never came to work: nothing was asked, judged or learned. Whether it was one."""
    own = {LOG, "files", "task.py", "task.cu"}
    begun = {event.kind for event in run.events} - {"created", "task", "device"}
    if begun or {path.name for path in run.folder.iterdir()} - own:
        return False
    run.close()
    shutil.rmtree(run.folder, ignore_errors=True)
    return True


def open_run(root: Path, name: str | Path, *, writing: bool = False) -> Run:
    """A run by its name, by an unambiguous beginning of it, by its folder, or `last` for the latest."""
    return Run(_folder_of(root, str(name)), writing=writing)


def _folder_of(root: Path, name: str) -> Path:
    folders = run_folders(root)
    found = [folder for folder in folders if folder.name.startswith(name)]
    exact = [folder for folder in found if folder.name == name]
    if len(exact or found) == 1:
        return (exact or found)[0]
    if name == LAST and folders:
        return folders[-1]
    if name and (Path(name) / LOG).is_file():
        return Path(name).absolute()
    if found and name:
        raise StoreError(f"{name} may mean {', '.join(folder.name for folder in found)}.")
    raise StoreError(f"there is no run {name} in {root}.")


def run_folders(root: Path) -> list[Path]:
    """Every run under `root`, the oldest first."""
    return sorted(path.parent for path in root.glob(f"*/{LOG}"))
