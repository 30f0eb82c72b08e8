"""`Places`: finds the runs and benches in the folders that are served, and gives each an id for addresses."""

import hashlib
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from kernelblaster.store.events import first_event
from kernelblaster.store.run import LOG

RUNS, BENCHES = "runs", "benches"  # folders within a data folder; a bench has its runs in one, too
SAFE = re.compile(r"[^\w.-]+", re.ASCII)


@dataclass(frozen=True)
class Place:
    """A run or a bench (`kind`) and its folder. `id` names it in web addresses; `bench` is the id of the
    bench that a run belongs to, empty if none."""

    id: str
    kind: Literal["run", "bench"]
    folder: Path
    bench: str = ""


class Places:
    """Finds the runs and benches in the folders `roots`. Each of these may be a run, a bench, a folder of
    runs or benches, or a data folder, with `runs` and `benches` in it. Web addresses name only the ids that
    are found here, never paths."""

    def __init__(self, roots: Sequence[Path]) -> None:
        self._roots = [root.absolute() for root in roots]
        self._known: dict[Path, Place] = {}
        self._waiting: set[Path] = set()
        self._ids: dict[str, Path] = {}

    def scan(self) -> dict[str, Place]:
        """Searches the folders, and returns all runs and benches found there, also the runs of benches. The
        keys are the ids that they have in web addresses."""
        found: dict[Path, Place] = {}
        for folder in self._folders():
            place = self._place(folder, "")
            if place is None:
                continue
            found[folder] = place
            if place.kind == "bench":
                for run in _holding_logs(folder / RUNS):
                    inner = self._place(run, place.id)
                    if inner is not None:
                        found[run] = inner
        for gone in self._known.keys() - found.keys():
            self._ids.pop(self._known[gone].id, None)
        self._known = found
        return {place.id: place for place in found.values()}

    def _folders(self) -> Iterable[Path]:
        """Yields each folder in or directly below the served ones that has the log of a run or bench."""
        seen: set[Path] = set()
        for root in self._roots:
            inner = [root / RUNS, root / BENCHES]
            if (root / LOG).is_file():
                folders: Iterable[Path] = [root]
            elif any(one.is_dir() for one in inner):
                folders = (folder for one in inner for folder in _holding_logs(one))
            else:
                folders = _holding_logs(root)
            for folder in folders:
                if folder not in seen:
                    seen.add(folder)
                    yield folder

    def _place(self, folder: Path, bench: str) -> Place | None:
        """The run or bench in a folder, looked up once. None for an ablation, and for a folder seen for the
        first time whose log has no complete first event yet."""
        known = self._known.get(folder)
        if known is not None:
            return known
        first = first_event(folder / LOG)
        if first is None and folder not in self._waiting:
            self._waiting.add(folder)  # another look: it may be just being made
            return None
        self._waiting.discard(folder)
        about = first.data if first else {}
        if "ablation" in about:
            return None
        kind: Literal["run", "bench"] = "bench" if "plan" in about and not bench else "run"
        return Place(self._new_id(folder, bench), kind, folder, bench)

    def _new_id(self, folder: Path, bench: str) -> str:
        """Makes the id by which web addresses name a run or bench: its folder's name where that is safe and
        unique, else with a hash appended. `bench` is the id of the bench that a run is part of."""
        name = SAFE.sub("_", folder.name)[:80] or "_"
        id_ = f"{bench}~{name}" if bench else name
        if (
            id_ != (f"{bench}~{folder.name}" if bench else folder.name)
            or self._ids.get(id_, folder) != folder
        ):
            id_ = f"{id_}.{hashlib.sha256(os.fsencode(folder)).hexdigest()[:8]}"
        self._ids[id_] = folder
        return id_


def _holding_logs(root: Path) -> list[Path]:
    """The folders directly below `root` that have a log."""
    try:
        with os.scandir(root) as entries:
            return [Path(entry.path) for entry in entries if os.path.exists(os.path.join(entry.path, LOG))]  # noqa: PTH110, PTH118
    except OSError:
        return []
