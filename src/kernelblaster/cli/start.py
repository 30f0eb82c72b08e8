"""What every command does first: sweep up after processes that were killed, see that files can be opened."""

import resource
import tempfile
from pathlib import Path

from kernelblaster.cache import sweep_cache
from kernelblaster.errors import KernelBlasterError
from kernelblaster.scratch import sweep

FILES = 256  # that a command may have open at once


def prepare() -> None:
    _allow_files()
    sweep(Path(tempfile.gettempdir()))
    sweep_cache()


def _allow_files() -> None:
    """As many open files as are needed, where this process may have them."""
    now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if now != resource.RLIM_INFINITY and now < FILES:
        if most != resource.RLIM_INFINITY and most < FILES:
            raise KernelBlasterError(
                f"this process may open {most} files at once, and needs {FILES}: allow it more "
                f"(ulimit -n {FILES})."
            )
        resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, most))
