"""Confines a program that uses this package, where its author wants that: `kernelblaster.confine`."""

import atexit
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from kernelblaster import cache
from kernelblaster.confinement.confine import Needs, confine
from kernelblaster.scratch import Scratch
from kernelblaster.settings import settings


def confine_process(readable: Sequence[str | Path] = (), writable: Sequence[str | Path] = ()) -> None:
    """Confine this process and all that it starts, for good, as the commands confine themselves before
    they run task files: it reads the system's programs, Python's packages, the working folder (without
    what is hidden there) and `readable`, fills the folders `writable` and those of runs and cache, and has
    no network, so that no model server and no database on a server can be asked.

    Call it first: PyTorch and NumPy start threads when they are imported, and only a process with one
    thread can be confined. Its environment stays as it is; take out what a task must not see. Raises
    KernelBlasterError where the system cannot do it."""
    known = settings()
    cache.make_folders([known.cache / "tmp", known.data])
    scratch = Scratch(known.cache / "tmp")
    atexit.register(scratch.close)
    os.environ["TMPDIR"], tempfile.tempdir = str(scratch.path), None
    confine(
        Needs(
            readable=tuple(Path(path) for path in readable),
            programs=(known.cache,),
            folders=(Path.cwd(),),
            writable=(known.cache, known.data, *(Path(path) for path in writable)),
            gpu=any(Path("/dev").glob("nvidia[0-9]*")),
        )
    )
