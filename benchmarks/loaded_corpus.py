"""Loads the tasks of corpus files side by side: one after another, they keep a GPU waiting for a minute."""

import multiprocessing
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from kernelblaster.processes.cores import usable_cores
from kernelblaster.processes.parent import die_with_parent
from kernelblaster.records import Task
from kernelblaster.testing.corpus import Corpus, metadata

MOST_WORKERS = 8


def loaded_corpus(files: Iterable[Path]) -> Corpus:
    """A corpus that knows the tasks of these files, each loaded in a process of its own. Raises BadTask."""
    names = sorted({metadata(file.read_text())["task"] for file in files})
    workers = max(1, min(MOST_WORKERS, len(names) // 2, usable_cores() - 1))
    if workers == 1:
        return Corpus()
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context, initializer=die_with_parent) as pool:
        return Corpus(dict(zip(names, pool.map(_loaded, names), strict=True)))


def _loaded(name: str) -> Task:
    return Corpus().task(name)
