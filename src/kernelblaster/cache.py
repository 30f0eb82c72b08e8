"""A folder of content-addressed results that many processes may fill at once."""

import contextlib
import fcntl
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from kernelblaster.errors import KernelBlasterError
from kernelblaster.settings import settings

_elsewhere: dict[str, Path] = {}


def entry(kind: str, digest: str) -> Path:
    """The folder of one result; it exists only if the result is complete."""
    return _elsewhere.get(kind, settings().cache) / kind / digest[:2] / digest


@contextlib.contextmanager
def afresh(kind: str) -> Iterator[None]:
    """Inside the block, this process finds no results of a kind that were there before it."""
    try:
        settings().cache.mkdir(parents=True, exist_ok=True)
        folder = tempfile.TemporaryDirectory(prefix=".afresh-", dir=settings().cache)
    except OSError as error:
        raise _cannot_write(settings().cache / kind, error) from error
    with folder:
        _elsewhere[kind] = Path(folder.name)
        try:
            yield
        finally:
            del _elsewhere[kind]


@contextlib.contextmanager
def alone(target: Path) -> Iterator[None]:
    """Let one process at a time work on `target`: for results that are costly to make twice."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        file = (target.parent / f".{target.name}.lock").open("a")
    except OSError as error:
        raise _cannot_write(target, error) from error
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def filling(target: Path) -> Iterator[Path]:
    """A scratch folder that becomes `target` when the block ends well, and vanishes otherwise.
    If another process was quicker, its result stands."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=".filling-", dir=target.parent))
    except OSError as error:
        raise _cannot_write(target, error) from error
    try:
        yield scratch
        with contextlib.suppress(FileExistsError, OSError):
            scratch.rename(target)
        if not target.is_dir():
            raise KernelBlasterError(f"{target}: the cache could not be written; see KERNELBLASTER_CACHE.")
    except OSError as error:
        raise _cannot_write(target, error) from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _cannot_write(target: Path, error: OSError) -> KernelBlasterError:
    return KernelBlasterError(
        f"{target.parent}: cannot write to the cache: {error.strerror or error}. Free some space, or "
        "set KERNELBLASTER_CACHE to another folder."
    )
