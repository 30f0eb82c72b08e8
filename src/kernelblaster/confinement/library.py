"""`kernelblaster.confine` for programs that import this package: confines the calling process before it runs
task files."""

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
    """Confine this process and all that it starts, for good, as the commands confine themselves before they
    run task files. It may then read the system's programs, Python's packages, the working folder (without
    hidden files) and `readable`, and change files in `writable` and in the folders of runs and cache. It has
    no network, so that no model server and no database on a server can be asked.

    Call it first: PyTorch and NumPy start threads when they are imported, and only a process with one thread
    can be confined. Its environment variables stay as they are: delete those that a task must not see. Raises
    KernelBlasterError where the system cannot do it.
    """
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
