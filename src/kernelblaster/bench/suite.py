"""Finds the tasks of a suite, which is `core`, a folder, a KernelBench checkout, or a part of one of
these."""

import re
import sys
import time
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from random import Random

from kernelblaster.errors import BadTask
from kernelblaster.records import Task
from kernelblaster.records.record import Record
from kernelblaster.records.signature import Dtype
from kernelblaster.settings import settings
from kernelblaster.tasks.catalog import KERNELBENCH, find, load_file

LEVEL = re.compile(r"level(\d+)$")
LONGEST_NUMBER = 6  # digits
NUMBER = re.compile(r"(\d+)_")


class Entry(Record):
    """A task of a suite, by its `name`. `path` is its file. `group` is the level or folder that it belongs
    to; statistics are made for each group. `number` is its number in the option `--problems`: KernelBench's
    own, or in other suites its place in the group."""

    name: str
    path: str
    group: str
    number: int


def entries_of(
    suites: Sequence[str],
    levels: Collection[int] = (),
    problems: str = "",
    subset: int | None = None,
    seed: int = 0,
) -> list[Entry]:
    """The tasks of these suites; each is a name, a folder, or `kernelbench:PATH`. Three filters are applied.
    `levels` are those of KernelBench to keep (empty: all). `problems` are the numbers to keep, such as
    `1-20,33` (empty: all). `subset` is how many tasks of each group are kept, drawn by the seed (None: all).
    Raises BadTask if a name stands for two tasks or none is left."""
    entries = [entry for suite in suites for entry in _numbered(_named(suite))]
    twice = {entry.name for entry in entries if sum(entry.name == other.name for other in entries) > 1}
    if twice:
        raise BadTask(f"{min(twice)}: stands for two tasks; give the two suites in separate benches.")
    if levels:
        entries = [entry for entry in entries if _level(entry.group) in levels]
    if problems:
        wanted = ranges(problems)
        entries = [entry for entry in entries if entry.number in wanted]
    if subset is not None:
        entries = sample(entries, subset, seed)
    if not entries:
        raise BadTask(f"{', '.join(suites)}: no task is left with these levels and problems.")
    return entries


def new_folder(suite: str) -> Path:
    """A path for a new bench of this suite in the user's data folder, with the time in its name. Nothing is
    created."""
    name = Path(suite.rstrip("/")).name.replace(":", "-") or "bench"
    return settings().data / "benches" / f"{time.strftime('%Y%m%d-%H%M%S')}-{name}"


def sample(entries: Sequence[Entry], count: int, seed: int = 0) -> list[Entry]:
    """Returns up to `count` of the tasks `entries` from each group (level or folder), drawn at random, in the
    order of `entries`. The same seed draws the same tasks."""
    kept: set[str] = set()
    for group in sorted({entry.group for entry in entries}):
        names = [entry.name for entry in entries if entry.group == group]
        kept |= set(Random(f"{seed}/{group}").sample(names, min(count, len(names))))
    return [entry for entry in entries if entry.name in kept]


def load_entry(entry: Entry, dtype: Dtype | None) -> Task:
    """Loads the task that an entry of a suite names, cast to `dtype`, or with the file's own types if that
    is None. What the file prints goes to standard error. Raises BadTask if the file is no task that can be
    judged."""
    with redirect_stdout(sys.stderr):
        return load_file(entry.name, Path(entry.path), dtype)


def ranges(text: str) -> set[int]:
    """The set of numbers in a text like `1-20,33`. Raises BadTask if a part is neither a number nor a range,
    or a number has more than six digits."""
    numbers: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d+)(?:-(\d+))?\s*", part)
        if match is None:
            raise BadTask(f"--problems {text}: {part!r} is neither a number nor a range like 1-20.")
        if any(len(number) > LONGEST_NUMBER for number in match.groups() if number):
            raise BadTask(f"--problems {text[:80]}: no suite has so many problems.")
        first = int(match[1])
        numbers |= set(range(first, int(match[2] or first) + 1))
    return numbers


def _named(suite: str) -> list[tuple[str, Path]]:
    """(name, file) of each task of a suite. Files of a folder are named by their relative path, with the
    suffix only if two differ in nothing else."""
    folder = Path(suite)
    files = find(suite)
    if suite.startswith(KERNELBENCH) or not folder.is_dir():
        return files
    root = folder.resolve()
    paths = [file.resolve().relative_to(root) for _, file in files]
    bare = Counter(path.with_suffix("") for path in paths)
    names = [path if bare[path.with_suffix("")] > 1 else path.with_suffix("") for path in paths]
    return [(f"{root.name}/{name}", file) for name, (_, file) in zip(names, files, strict=True)]


def _numbered(files: Iterable[tuple[str, Path]]) -> list[Entry]:
    """The files, given as (name, path), as entries of a suite; an entry's group is the name of its file's
    folder."""
    counted: dict[str, int] = {}
    entries = []
    for name, file in files:
        path = file.resolve()
        group = path.parent.name
        counted[group] = counted.get(group, 0) + 1
        own = NUMBER.match(path.name)
        number = int(own[1]) if own else counted[group]
        entries.append(Entry(name=name, path=str(path), group=group, number=number))
    return entries


def _level(group: str) -> int | None:
    """The number of a KernelBench level in a group's name: 2 for `level2`; None if it has none."""
    match = LEVEL.search(group)
    return int(match[1]) if match else None
