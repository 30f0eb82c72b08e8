"""`FollowedRun`: a run that another process is writing, read as it grows, without locks, in bounded
memory."""

from collections.abc import Callable, Sequence
from pathlib import Path

from kernelblaster.errors import StoreError
from kernelblaster.store import lines
from kernelblaster.store.events import RunEvent
from kernelblaster.store.files import Files
from kernelblaster.store.run import LOG
from kernelblaster.store.tail import LogTail, TailedLine

Slim = Callable[[RunEvent], RunEvent]


class FollowedRun:
    """The run in `folder`, read while another process writes it: its `events` so far, and its `files`. `slim`
    returns a smaller copy of an event; these copies are kept, so that memory stays bounded. `damage` says
    what is wrong with the log, empty if nothing is. `update` must not be called from two threads at once."""

    def __init__(self, folder: Path, slim: Slim = lambda event: event) -> None:
        self.folder = folder
        self.files = Files(folder / "files")
        self._slim = slim
        self._tail = LogTail(folder / LOG, _event)
        self._events: list[RunEvent] = []
        self._places: list[tuple[int, int]] = []
        self._begun = 0

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def events(self) -> Sequence[RunEvent]:
        return self._events

    @property
    def begun(self) -> int:
        """How often the log was read from its beginning: 1, plus 1 for each time that it was replaced or cut
        off. After that, `events` holds other events than before."""
        return self._begun

    @property
    def damage(self) -> str:
        return self._tail.damage

    def update(self) -> bool:
        """Reads what was appended to the log since the last call, and adds it to `events`. A log that was
        replaced or cut off is read again from its beginning. Returns whether `events` or `damage` changed."""
        damage, changed = self.damage, False
        while True:
            new = self._tail.read()
            if self._tail.begun != self._begun:
                self._begun = self._tail.begun
                changed = changed or bool(self._events)
                self._events, self._places = [], []
            self._add(new)
            changed = changed or bool(new)
            if not (new and self._tail.behind):
                return changed or self.damage != damage

    def whole(self, number: int) -> RunEvent:
        """Returns the event with this number as it was recorded, read again from the file, since `events` may
        have a smaller copy. Raises StoreError if it is gone."""
        offset, length = self._places[number]
        try:
            with (self.folder / LOG).open("rb") as file:
                file.seek(offset)
                line = file.read(length)
            text = lines.strip_sum(line)
            return _event(text)
        except (OSError, ValueError) as error:
            raise StoreError(f"{self.folder / LOG}: event {number} cannot be read any more.") from error

    def _add(self, new: Sequence[TailedLine[RunEvent]]) -> None:
        """Appends the events of new log lines to those in memory, made smaller, and notes where in the file
        each line is."""
        for line in new:
            self._events.append(self._slim(line.value))
            self._places.append((line.offset, line.length))


def _event(text: bytes) -> RunEvent:
    """Parses a line of a run's log, without its checksum. Raises ValueError if it is no event."""
    return RunEvent.model_validate_json(text)
