"""One run: its events and its files, in a folder of its own."""

import json
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kernelblaster.errors import StoreError
from kernelblaster.store.events import Event, EventLog
from kernelblaster.store.files import Files

LOG = "events.jsonl"


class Run:
    """A run that is open. What it needs to be continued is in its events: a step that was recorded is
    not done again, so that a run that was killed ends as one that was not."""

    def __init__(self, folder: Path, *, writing: bool) -> None:
        self.folder = folder
        self.files = Files(folder / "files")
        self._log = EventLog(folder / LOG, writing=writing)
        self._known = {(e.kind, e.key): e for e in self._log.events if e.key}

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def events(self) -> list[Event]:
        return self._log.events

    def append(self, kind: str, **data: Any) -> Event:
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
    """A new run under `root`; `about` is its first event. Only its owner can look into it: what people ask
    of models is in it."""
    name = time.strftime("%Y%m%d-%H%M%S-") + secrets.token_hex(3)
    folder = root / name
    try:
        root.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700)
        (folder / LOG).touch(mode=0o600)
    except OSError as error:
        raise StoreError(f"{root}: cannot make a run there: {error.strerror or error}") from error
    run = Run(folder, writing=True)
    run.append("created", **about)
    return run


def open_run(root: Path, name: str, *, writing: bool = False) -> Run:
    """A run by its name or by an unambiguous beginning of it."""
    found = [folder for folder in run_folders(root) if folder.name.startswith(name)]
    exact = [folder for folder in found if folder.name == name]
    if len(exact or found) != 1:
        raise StoreError(
            f"there is no run {name} in {root}."
            if not found
            else f"{name} may mean {', '.join(folder.name for folder in found)}."
        )
    return Run((exact or found)[0], writing=writing)


def run_folders(root: Path) -> list[Path]:
    """Every run under `root`, the oldest first."""
    return sorted(path.parent for path in root.glob(f"*/{LOG}"))
