"""`LogTail`: follows the log of a run while another process writes it; nothing is locked, and nothing is read
twice."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from kernelblaster.store import lines

T = TypeVar("T")
AT_ONCE = 1_000_000  # bytes that one call reads; parsed they take some ten times as much memory
LONGEST_LINE = 64_000_000  # bytes


@dataclass(frozen=True)
class TailedLine(Generic[T]):
    """A line of a log: `value` is what was parsed of it. It begins at byte `offset` of the file and has
    `length` bytes without its newline."""

    value: T
    offset: int
    length: int


class LogTail(Generic[T]):
    """Follows the log in the file `path`: each call of `read` returns the complete lines that were appended
    since the last one. `parse` makes a value from a line's JSON, and raises ValueError for a damaged line.
    `damage` says what is wrong with the log, empty if nothing is; lines before the damage are returned all
    the same. If the file is replaced or cut off, it is read from its beginning again; `begun` counts how
    often it was."""

    def __init__(self, path: Path, parse: Callable[[bytes], T]) -> None:
        self._path = path
        self._parse = parse
        self.damage = ""
        self.begun = 0
        self._seen: tuple[int, int, int] | None = None
        self._start(0)

    def _start(self, inode: int) -> None:
        self._inode = inode
        self._offset = 0
        self._number = 0
        self._sum = ""
        self.damage = ""

    def read(self) -> list[TailedLine[T]]:
        """Returns the complete lines that are new since the last call, about 1 MB of them (AT_ONCE); empty if
        there are none or the file cannot be read. A last line that is still being written is left for
        later."""
        try:
            about = self._path.stat()
            now = (about.st_ino, about.st_size, about.st_mtime_ns)
            if now == self._seen:
                return []
            if about.st_ino != self._inode or about.st_size < self._offset:
                self._start(about.st_ino)
                self.begun += 1
            if self.damage:
                self._seen = now
                return []
            with self._path.open("rb") as file:
                file.seek(self._offset)
                data = file.read(AT_ONCE)
                while b"\n" not in data and AT_ONCE <= len(data) <= LONGEST_LINE:
                    more = file.read(AT_ONCE)
                    data += more
                    if not more:
                        break
        except OSError as error:
            self._seen = None
            if not isinstance(error, FileNotFoundError):
                self.damage = f"{self._path}: {error.strerror or error}"
            return []
        self._seen = now if self._offset + len(data) >= about.st_size else None
        return self._taken(data)

    @property
    def behind(self) -> bool:
        """True if `read` has left complete lines in the file, because it returns at most about 1 MB at once,
        and should be called again."""
        return self._seen is None and not self.damage

    def _taken(self, data: bytes) -> list[TailedLine[T]]:
        """The complete lines at the beginning of `data`, the bytes that follow what was read before, parsed.
        Stops at a damaged line, and sets `damage`."""
        *whole, rest = data.split(b"\n")
        if len(rest) > LONGEST_LINE:
            self.damage = f"{self._path}: line {self._number + 1} has no end."
            return []
        found = []
        for line in whole:
            checked = lines.check(line, self._sum)
            try:
                if checked is None:
                    raise ValueError("the checksum is wrong")
                value = self._parse(checked[0])
            except ValueError:
                self.damage = _damaged(self._path, self._number, line)
                break
            found.append(TailedLine(value, self._offset, len(line)))
            self._offset += len(line) + 1
            self._number += 1
            self._sum = checked[1]
        return found


def _damaged(path: Path, number: int, line: bytes) -> str:
    """What to tell the user about line `number` (from 0) of a log, which cannot be read: damaged, or of a
    later version."""
    later = lines.later_format(line) if number == 0 else None
    if later is not None:
        return f"{path}: has format {later}, which is newer than this version of KernelBlaster."
    return f"{path}: line {number + 1} is damaged; the {number} before it are whole."
