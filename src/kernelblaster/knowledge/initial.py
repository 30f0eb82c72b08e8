"""Makes the knowledge base that a run starts with: empty, the shipped seed, or a copy of another."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from kernelblaster import keeper
from kernelblaster.durability import replace_durably
from kernelblaster.errors import KnowledgeError
from kernelblaster.knowledge.address import opened
from kernelblaster.knowledge.head import BESIDE
from kernelblaster.knowledge.kept import copy_kept, open_knowledge
from kernelblaster.knowledge.knowledge_base import KnowledgeBase
from kernelblaster.knowledge.seed import plant
from kernelblaster.passwords import is_url, shown

EMPTY, SEED = "empty", "seed"


def recorded_start(start: str) -> str:
    """Returns the text by which a run records the knowledge base `start` that it began with: `empty` and
    `seed` as they are, a URL without its password, a path made absolute."""
    return shown(start) if start in (EMPTY, SEED) or is_url(start) else str(Path(start).absolute())


def start_knowledge(start: str, target: str | Path) -> None:
    """Creates the knowledge base at `target`, a path or a database URL. `start` says what is in it: `empty`
    (nothing), `seed` (the shipped knowledge), or the path or URL of a knowledge base to copy. In a confined
    command, which may not read that knowledge base itself, the keeper (its helper process) makes the copy. A
    `target` file that exists is left as it is. A call that was interrupted can be repeated: a file is written
    whole or not at all, and a database is completed. Raises KnowledgeError if `start` cannot be read or
    `target` cannot be written."""
    if is_url(str(target)):
        with KnowledgeBase(target) as knowledge:
            _fill(knowledge, start)
    elif keeper.keeps(start):
        copy_kept(start, Path(target))
    else:
        start_here(start, Path(target))


def start_here(start: str, path: Path) -> None:
    """Creates the knowledge base in the file `path`, always in this process and never by the keeper (the
    command's helper process). `start` says what is in it: `empty` (nothing), `seed` (the shipped knowledge),
    or the path or URL of a knowledge base to copy. Does nothing if the file exists."""
    if path.is_file():
        return
    if start not in (EMPTY, SEED) and not is_url(start):
        copy_knowledge(start, path)
        return
    with _written_atomically(path) as scratch, KnowledgeBase(scratch) as knowledge:
        _fill(knowledge, start)


def _fill(knowledge: KnowledgeBase, start: str) -> None:
    """Give a knowledge base what it starts with (`start` as in `start_knowledge`); doing so twice changes
    nothing."""
    if start == SEED:
        plant(knowledge)
    elif start != EMPTY:
        where = start if keeper.keeps(start) else opened(start)
        with open_knowledge(where, create=False) as source:
            knowledge.merge(source)


def copy_knowledge(source: str | Path, target: Path) -> None:
    """Copies the knowledge base in the file `source` to the file `target`. The copy is consistent even while
    other processes write to `source`. Raises KnowledgeError if there is no such file, it is damaged, or it
    cannot be copied."""
    if not Path(source).is_file():
        raise KnowledgeError(f"{source}: there is no such knowledge base.")
    KnowledgeBase(source, create=False).close()  # raises if it is damaged
    try:
        with (
            _written_atomically(target) as scratch,
            closing(sqlite3.connect(source)) as one,
            closing(sqlite3.connect(scratch)) as other,
        ):
            one.backup(other)
    except sqlite3.Error as error:
        raise KnowledgeError(f"{source}: cannot be copied: {error}.") from error


@contextmanager
def _written_atomically(target: Path) -> Iterator[Path]:
    """Yields a scratch path that is renamed to `target` if the block ends without an error. Removes leftovers
    of a killed process first. Raises KnowledgeError if the disk refuses."""
    scratch = target.with_suffix(".new")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        for left in (scratch, *(Path(f"{scratch}{kind}") for kind in BESIDE)):
            left.unlink(missing_ok=True)
        yield scratch
        replace_durably(scratch, target)
    except OSError as error:
        raise KnowledgeError(f"{target}: cannot be written: {error.strerror or error}.") from error
