"""A folder of content-addressed results that many processes may fill at once. What it holds can be made
again: a result that is not what was written counts as none."""

import contextlib
import fcntl
import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from kernelblaster.cache.contents import is_whole, seal
from kernelblaster.cache.eviction import evict_sometimes
from kernelblaster.errors import Shortage
from kernelblaster.lasting import sync
from kernelblaster.scratch import Scratch, sweep
from kernelblaster.settings import settings

SCRATCH = ".scratch-"
_elsewhere: dict[str, Path] = {}
_looked_at: dict[tuple[object, ...], Path] = {}


def entry(kind: str, digest: str) -> Path:
    """The folder of one result, by the digest of all that it depends on; see `found`."""
    return _elsewhere.get(kind, settings().cache) / kind / digest[:2] / digest


def found(target: Path) -> bool:
    """Whether the result is there, and is what was written under this digest. One that is not is removed."""
    if not target.is_dir():
        return False
    if not is_whole(target):
        with alone(target):
            if not is_whole(target):
                _discard(target)
                return False
    with contextlib.suppress(OSError):
        os.utime(target)  # when it was used last
    return True


@contextlib.contextmanager
def afresh(kind: str) -> Iterator[None]:
    """Inside the block, this process finds no results of a kind that were there before it."""
    try:
        settings().cache.mkdir(parents=True, exist_ok=True)
        folder = Scratch(settings().cache, SCRATCH)
    except OSError as error:
        raise _cannot_write(settings().cache / kind, error) from error
    with folder as path:
        _elsewhere[kind] = path
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
        scratch = Scratch(target.parent.parent, SCRATCH)
    except OSError as error:
        raise _cannot_write(target, error) from error
    try:
        yield scratch.path
        seal(scratch.path, target)
        with contextlib.suppress(OSError):
            scratch.path.rename(target)
            sync(target.parent)
        if not target.is_dir():
            raise Shortage(f"{target}: the cache could not be written; see KERNELBLASTER_CACHE.")
    except OSError as error:
        raise _cannot_write(target, error) from error
    finally:
        scratch.close()
    evict_sometimes(settings().cache, settings().cache_bytes)


def found_once(kind: str, about: tuple[object, ...], find: Callable[[], Path]) -> Path:
    """A file of a result that `find` finds or makes: looked at as a whole once in this process, and from then
    on only whether it is there."""
    key = (entry(kind, ""), *about)
    path = _looked_at.get(key)
    if path is None or not path.is_file():
        path = _looked_at[key] = find()
    return path


def kept_text(kind: str, text: str, suffix: str) -> Path:
    """A file with this text, for those who take files only."""
    digest = hashlib.sha256(text.encode()).hexdigest()[:32]
    target = entry(kind, digest)
    if not found(target):
        with filling(target) as folder:
            (folder / f"text{suffix}").write_text(text)
    return target / f"text{suffix}"


def sweep_cache() -> None:
    """Remove what processes that were killed left unfinished."""
    cache = settings().cache
    sweep(cache, SCRATCH)
    with contextlib.suppress(OSError):
        for kind in cache.iterdir():
            sweep(kind, SCRATCH)


def _discard(target: Path) -> None:
    """At once for whoever looks; its files follow."""
    try:
        with Scratch(target.parent.parent, SCRATCH) as folder:
            target.rename(folder / target.name)
    except OSError as error:
        raise _cannot_write(target, error) from error


def _cannot_write(target: Path, error: OSError) -> Shortage:
    return Shortage(
        f"{target.parent}: cannot write to the cache: {error.strerror or error}. Free some space, or "
        "set KERNELBLASTER_CACHE to another folder."
    )
