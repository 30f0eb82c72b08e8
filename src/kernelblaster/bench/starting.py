"""What a bench's searches know when they start: nothing, the seed, or what another knowledge base holds."""

import sqlite3
from contextlib import closing
from pathlib import Path

from kernelblaster.errors import KnowledgeError
from kernelblaster.knowledge.address import is_url, opened
from kernelblaster.knowledge.knowledge_base import KnowledgeBase
from kernelblaster.knowledge.seed import plant

EMPTY, SEED = "empty", "seed"


def start_knowledge(start: str, where: Path) -> None:
    """Make the knowledge base `where`: empty, with the seed, or as a copy of a file or a server's. One
    that is there already stays as it is."""
    if where.is_file():
        return
    where.parent.mkdir(parents=True, exist_ok=True)
    if start in (EMPTY, SEED):
        with KnowledgeBase(where) as knowledge:
            if start == SEED:
                plant(knowledge)
    elif is_url(start):
        with KnowledgeBase(opened(start), create=False) as source, KnowledgeBase(where) as knowledge:
            knowledge.merge(source)
    else:
        copy_knowledge(start, where)


def copy_knowledge(source: str | Path, target: Path) -> None:
    """A copy of a knowledge base in a file, made while others may be writing to it."""
    if not Path(source).is_file():
        raise KnowledgeError(f"{source}: there is no such knowledge base.")
    target.parent.mkdir(parents=True, exist_ok=True)
    scratch = target.with_suffix(".copying")
    try:
        with closing(sqlite3.connect(source)) as one, closing(sqlite3.connect(scratch)) as other:
            one.backup(other)
    except sqlite3.Error as error:
        raise KnowledgeError(f"{source}: cannot be copied: {error}.") from error
    scratch.replace(target)
