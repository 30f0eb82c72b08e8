"""The tasks that agents can name: shipped ones, those that they made, and files in allowed folders."""

import difflib
import hashlib
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from kernelblaster.errors import BadTask, KernelBlasterError
from kernelblaster.mcp.setup import LONGEST_SOURCE
from kernelblaster.plain_text import one_line
from kernelblaster.store.files import write_whole
from kernelblaster.strict_json import InvalidJson, read_bounded
from kernelblaster.tasks.catalog import TASK_LIKE, find, suites_folder

MADE = "made/"
SUFFIXES = (".py", ".cu")


@dataclass(frozen=True)
class NamedTask:
    """A task that an agent named, as it was found: its full `name`, and the `path` of its file. `shipped`:
    the task comes with KernelBlaster, so that its Python can be run without a check."""

    name: str
    path: Path
    shipped: bool


class TaskNames:
    """Finds the tasks that agents name, and the files that they may read and write: those in `folders`. Tasks
    that agents made are kept in the folder `made`. No name leads to any other place."""

    def __init__(self, folders: tuple[Path, ...], made: Path) -> None:
        self.folders = tuple(folder.resolve() for folder in folders)
        self._made = made

    @cached_property
    def _shipped(self) -> dict[str, Path]:
        suites = [folder.name for folder in suites_folder().iterdir() if folder.is_dir()]
        return {name: path for suite in sorted(suites) for name, path in find(suite)}

    def names(self) -> list[str]:
        """The names of all tasks that agents can use: first those shipped with KernelBlaster, then those that
        agents made with the tool make_task, then the paths of task files in the allowed folders."""
        made = sorted(MADE + path.stem for path in self._made.glob("*") if path.suffix in SUFFIXES)
        return [*self._shipped, *made, *(str(path) for path in self._files())]

    def find(self, name: str) -> NamedTask:
        """Finds the task that an agent names: a shipped one, one that agents made, or a file in an allowed
        folder. A file is named by its path or, if it is the only one of that name, by its name without the
        suffix. Raises BadTask, with similar names, if there is none."""
        if name in self._shipped:
            return NamedTask(name, self._shipped[name], True)
        if name.startswith(MADE):
            for suffix in SUFFIXES:
                path = self._made / f"{name.removeprefix(MADE)}{suffix}"
                if re.fullmatch(r"[\w-]+", name.removeprefix(MADE)) and path.is_file():
                    return NamedTask(name, path, False)
        elif name.endswith(SUFFIXES) and self.folders:
            return NamedTask(name, self.existing(name), False)
        alone = [path for path in self._files() if path.stem == name]
        alone = [path for path in alone if path.suffix == ".py"] or alone  # candidates lie beside tasks
        if len(alone) == 1:
            return NamedTask(str(alone[0]), self.existing(str(alone[0])), False)
        near = difflib.get_close_matches(name[:200], self.names(), 4, 0.3)
        hint = f" Do you mean {', '.join(near)}?" if near else ""
        raise BadTask(
            f"there is no task {one_line(name[:200])!r}.{hint} list_tasks names all; make_task makes one."
        )

    def make(self, source: str, name: str) -> str:
        """Stores the `source` of a new task: as CUDA if it has `__global__`, else as Python. Returns its
        name, which has the words of `name` and a hash of the source: the same source and name give the same
        task."""
        suffix = ".cu" if "__global__" in source else ".py"
        words = re.sub(r"\W+", "_", name.strip(), flags=re.ASCII).strip("_")[:40] or "task"
        stem = f"{words}-{hashlib.sha256(source.encode()).hexdigest()[:8]}"
        write_whole(self._made / f"{stem}{suffix}", source)
        return MADE + stem

    def forget(self, name: str) -> None:
        """Deletes the file of the task `name` that an agent made. Called if the task turned out not to be
        usable."""
        for suffix in SUFFIXES:
            (self._made / f"{name.removeprefix(MADE)}{suffix}").unlink(missing_ok=True)

    def existing(self, name: str) -> Path:
        """Returns the path of a file in an allowed folder. `name` is relative to one of these folders, or
        absolute. Raises KernelBlasterError if there is no such file."""
        for path in self._within(name):
            if path.is_file():
                return path
        raise KernelBlasterError(f"{one_line(name[:200])}: there is no such file. {self._words}")

    def writable(self, name: str) -> Path:
        """Returns the path that an agent means by `name`, if it may write a file there. The path must lie in
        an allowed folder, at any depth, and its parent folder must exist. Raises KernelBlasterError
        otherwise."""
        within = [path for path in self._within(name) if path.parent.is_dir() and not path.is_dir()]
        if not within:
            raise KernelBlasterError(f"{one_line(name[:200])}: cannot be written. {self._words}")
        return within[0]

    def read(self, name: str) -> str:
        """Returns the text of the file `name` in an allowed folder. Raises KernelBlasterError if the file
        does not exist, has more than 400,000 bytes (LONGEST_SOURCE), or is not UTF-8."""
        path = self.existing(name)
        try:
            return read_bounded(path, LONGEST_SOURCE).decode()
        except (OSError, InvalidJson, UnicodeDecodeError) as error:
            raise KernelBlasterError(f"{path.name}: cannot be read: {error}") from error

    def _within(self, name: str) -> list[Path]:
        """The paths that a name may stand for, one in each allowed folder, with links followed; none that
        leads outside or to a hidden file."""
        if not name or len(name) > 1000 or "\0" in name:
            return []
        found = []
        for folder in self.folders:
            path = (folder / name).resolve()
            hidden = any(part.startswith(".") for part in path.parts[len(folder.parts) :])
            if path.is_relative_to(folder) and path != folder and not hidden:
                found.append(path)
        return found

    def _files(self) -> list[Path]:
        """The files directly in the allowed folders that look like tasks by name and content, at most 200."""
        found = []
        for folder in self.folders:
            for path in sorted(folder.glob("*")):
                like = TASK_LIKE.get(path.suffix) if path.suffix in SUFFIXES else None
                if like and path.is_file() and like.search(path.read_bytes()[:LONGEST_SOURCE]):
                    found.append(path)
        return found[:200]

    @property
    def _words(self) -> str:
        allowed = ", ".join(map(str, self.folders))
        if not allowed:
            return "This server was started without folders for files: give the text itself instead."
        return f"Files may be named in {allowed}; or give the text itself."
