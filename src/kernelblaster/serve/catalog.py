"""The list of all runs and benches that are served, each run with a summary. It is kept up to date by looking
at their logs."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from kernelblaster.serve.places import Place, Places
from kernelblaster.serve.summary import ParsedEvent, RunSummary, parse_event
from kernelblaster.store.history import RunState
from kernelblaster.store.run import LOG
from kernelblaster.store.tail import LogTail
from kernelblaster.store.writer import lock_holders, writer_of

SCAN_S = 1.0  # seconds between two looks at the folders
QUIET_S = 1.0  # between two looks at a run on which nobody works
BURST_S = 0.15  # of reading logs in one call: the rest is for the next, so that others get their turn
STATES: tuple[str, ...] = ("running", "finished", "stopped", "interrupted", "damaged")


@dataclass
class ListedRun:
    """A run in the list. `place` says where it is (folder, id), `summary` what is shown of it; `tail` reads
    its log. `writer` is the id of the process that works on the run, None if none does. `version` grows with
    each change of the run. `read`: the log was read to its end at least once; `grew`: the run changed after
    that. `begun` counts how often the log was read from its beginning."""

    place: Place
    tail: LogTail[ParsedEvent]
    summary: RunSummary = field(default_factory=RunSummary)
    writer: int | None = None
    version: int = 0
    read: bool = False
    grew: bool = False
    begun: int = 1

    @property
    def state(self) -> RunState | str:
        """The state of the run in one word: `running`, `finished`, `stopped`, `interrupted`, or `damaged`."""
        return "damaged" if self.tail.damage else self.summary.state(self.writer)

    @property
    def order(self) -> tuple[bool, float, str]:
        """The key to sort a list of runs by: those that are running come first, then the latest."""
        when = self.summary.begun if self.summary.begun is not None else 0.0
        return self.state != "running", -when, self.place.id


class Catalog:
    """The runs and benches in the folders `roots`. `poll` looks at what has changed; the other methods return
    what the last `poll` found, without waiting. May be used by several threads."""

    def __init__(self, roots: list[Path]) -> None:
        self.roots = roots
        self._places = Places(roots)
        self._lock = threading.Lock()
        self._runs: dict[str, ListedRun] = {}
        self._benches: dict[str, Place] = {}
        self._scanned = self._looked = float("-inf")
        self._pages: set[object] = set()  # those that are being made
        self.version = 0

    @contextmanager
    def making_page(self) -> Iterator[None]:
        """A context for making a page. While it is open, calls of `poll` by another thread read at most one
        log that was never read before. So the first page need not wait until the logs of all runs are read.
        """
        page = object()
        self._pages.add(page)
        try:
            yield
        finally:
            self._pages.discard(page)

    def poll(self, *, now: bool = False) -> bool:
        """Reads what is new in the folders and logs. It spends about 0.15 s (BURST_S) on logs that were never
        read before; returns True if some of these are left, and `poll` should be called again. Logs of runs
        on which no process works are read only once a second (QUIET_S), or if `now` is set. If another thread
        is in this method, returns False at once or, with `now`, waits for it."""
        if not self._lock.acquire(blocking=now):
            return False
        try:
            at = time.monotonic()
            if now or at - self._scanned >= SCAN_S:
                self._scan()
                self._scanned = time.monotonic()
            everything = now or at - self._looked >= QUIET_S
            if everything:
                self._looked = at
            return self._read(everything)
        finally:
            self._lock.release()

    def runs(self, bench: str = "") -> list[ListedRun]:
        """The runs of the bench with the id `bench`; if that is empty, the runs that belong to no bench.
        Running ones come first, then the latest."""
        found = [one for one in list(self._runs.values()) if one.place.bench == bench]
        return sorted(found, key=lambda one: one.order)

    def run(self, id_: str) -> ListedRun | None:
        """The run that has the id `id_` in web addresses; None if there is none."""
        return self._runs.get(id_)

    def benches(self) -> list[Place]:
        """The benches, by name from the last to the first, since names begin with the time."""
        return sorted(self._benches.values(), key=lambda place: place.folder.name, reverse=True)

    def bench(self, id_: str) -> Place | None:
        """The bench that has the id `id_` in web addresses; None if there is none."""
        return self._benches.get(id_)

    @property
    def reading(self) -> bool:
        """Whether there are runs in the list whose logs have not been read to the end yet, so that what is
        shown of them may change."""
        return any(not one.read for one in list(self._runs.values()))

    def _scan(self) -> None:
        """Looks into the folders: adds runs and benches that are new, and drops those whose folders are
        gone."""
        found = self._places.scan()
        runs = {id_: place for id_, place in found.items() if place.kind == "run"}
        benches = {id_: place for id_, place in found.items() if place.kind == "bench"}
        if runs.keys() != self._runs.keys() or benches.keys() != self._benches.keys():
            self.version += 1
        for id_ in self._runs.keys() - runs.keys():
            del self._runs[id_]
        for id_ in sorted(runs.keys() - self._runs.keys(), reverse=True):
            place = runs[id_]
            self._runs[id_] = ListedRun(place, LogTail(place.folder / LOG, parse_event))
        self._benches = benches

    def _read(self, everything: bool) -> bool:
        """Reads what was appended to the logs of runs: with `everything` of all, else only of those that are
        running or were never read. Returns whether BURST_S was too short for all."""
        until = time.monotonic() + BURST_S
        holders = lock_holders() or {}
        begun = False  # at least one log is begun in each call, however many pages are made
        for one in self._waiting(everything):
            if not one.read and (time.monotonic() > until or (self._pages and begun)):
                return True
            begun = begun or not one.read
            while True:
                new = one.tail.read()
                if one.tail.begun > one.begun:  # another log is in its place
                    one.begun, one.summary = one.tail.begun, RunSummary()
                for line in new:
                    one.summary.add(line.value)
                if new:
                    one.grew = one.grew or one.read
                    self._change(one)
                if not one.tail.behind or not new:
                    break
            writer = writer_of(one.place.folder, holders) if holders else None
            if writer != one.writer or not one.read:
                one.grew = one.grew or one.read
                one.writer, one.read = writer, True
                self._change(one)
        return False

    def _waiting(self, everything: bool) -> Iterator[ListedRun]:
        """The runs whose summaries may be out of date, in the order in which to refresh them: first those
        that were read once, as that is quick (with `everything` all of them, otherwise only those being
        written), then
        those never read."""
        runs = list(self._runs.values())
        yield from (one for one in runs if one.read and (everything or one.writer is not None))
        yield from (one for one in runs if not one.read)

    def _change(self, one: ListedRun) -> None:
        self.version += 1
        one.version = self.version
