"""The cache: folders of results, like compiled code. A result's folder is named by a hash of all that the
result depends on. Many processes may use the cache at once. Everything in it can be recomputed, so a damaged
result counts as missing."""

import contextlib
import fcntl
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from kernelblaster.cache.contents import is_whole, seal
from kernelblaster.cache.eviction import BUILT, PARTS, evict_sometimes
from kernelblaster.durability import sync
from kernelblaster.errors import Shortage
from kernelblaster.scratch import Scratch, sweep
from kernelblaster.settings import settings

SCRATCH = ".scratch-"
OWN = (*BUILT, "ptx-objects")  # parts of this program, which no code of a task may change
SHARED = 0o755  # others than the owner may read a result: the recorder's child is another user
_elsewhere: dict[str, Path] = {}
_known_files: dict[tuple[object, ...], Path] = {}


def entry(kind: str, digest: str) -> Path:
    """Returns the path of the folder for one cached result, whether or not the result has been stored
    (`is_stored` tells). `kind` is a subfolder of the cache ("native", "ptx", ...); `digest` is a hex digest
    of everything that the result depends on."""
    known = settings()
    root = known.cache if kind in OWN else _elsewhere.get(kind, known.results)
    return root / kind / digest[:2] / digest


def is_stored(target: Path) -> bool:
    """True if the result in the folder `target` (from `entry`) exists and is intact; it is then marked as
    used now, so that it is not evicted soon. A damaged result is deleted, so that it will be made again. In a
    confined process, results of the kinds in OWN (KernelBlaster's own compiled code, such as its emulator)
    are only checked, neither marked nor deleted. Raises Shortage if deleting fails."""
    if not target.is_dir():
        return False
    if settings().confined and target.parts[-3] in OWN:
        return is_whole(target)
    if not is_whole(target):
        with alone(target):
            if not is_whole(target):
                _discard(target)
                return False
    with contextlib.suppress(OSError):
        os.utime(target)  # for eviction: used now
    return True


def temporary(kind: str = "") -> Scratch:
    """A new temporary folder in the cache, to be used as a context; it is deleted at the end. With `kind`, it
    lies in the folder of results of that kind. If this process is killed before the end, the next
    `sweep_cache` deletes the folder. Raises Shortage if the cache cannot be written."""
    parent = settings().results / kind if kind else settings().cache
    try:
        parent.mkdir(parents=True, exist_ok=True)
        return Scratch(parent, SCRATCH)
    except OSError as error:
        raise _cannot_write(parent, error) from error


@contextlib.contextmanager
def afresh(kind: str) -> Iterator[None]:
    """A context in which this process keeps results of `kind` in a new temporary folder instead of the cache.
    Results that were made before are not found there, so they are made again: a candidate whose verdict is to
    be confirmed is really compiled. The folder is deleted at the end."""
    with temporary(kind) as path:
        _elsewhere[kind] = path
        try:
            yield
        finally:
            del _elsewhere[kind]


@contextlib.contextmanager
def alone(target: Path) -> Iterator[None]:
    """A context that holds the lock of the result `target`; only one process at a time has it. Use it so that
    a costly result is computed once: inside, check `is_stored` again before computing. Waits for the lock
    without a limit. Raises Shortage if the lock file cannot be made."""
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
    """A context that yields a temporary folder, into which the files of a result are to be written. At its
    end, the folder is renamed to `target`; after an exception it is deleted. If another process has stored
    the result meanwhile, that one is kept and the new one deleted. Raises Shortage if the cache cannot be
    written."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        scratch = Scratch(target.parent.parent, SCRATCH, SHARED)
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
    if not settings().confined:
        evict_sometimes(settings().cache, settings().cache_bytes)


def find_once(kind: str, about: tuple[object, ...], find: Callable[[], Path]) -> Path:
    """Returns the path of a file that the function `find` checks or makes. The first call with this `kind`
    and `about` (everything that the file depends on) calls `find`. Later calls in this process return the
    same path, and call `find` again only if the file is gone."""
    key = (entry(kind, ""), *about)
    path = _known_files.get(key)
    if path is None or not path.is_file():
        path = _known_files[key] = find()
    return path


def text_file(kind: str, text: str, suffix: str) -> Path:
    """Returns the path of a file in the cache that contains `text`, for code that needs a path instead of a
    text. It is stored under `kind`, and its name ends with `suffix`; it is written if it is not there yet."""
    digest = hashlib.sha256(text.encode()).hexdigest()[:32]
    target = entry(kind, digest)
    if not is_stored(target):
        with filling(target) as folder:
            (folder / f"text{suffix}").write_text(text)
    return target / f"text{suffix}"


def make_folders(folders: Iterable[Path]) -> None:
    """Creates these folders of the cache and their parents, where they do not exist. Raises Shortage if one
    cannot be made."""
    for folder in folders:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _cannot_write(folder, error) from error


def sweep_cache() -> None:
    """Delete temporary folders that killed processes left in the cache and, at most once an hour, the least
    recently used results if the cache is over its size limit."""
    cache = settings().cache
    with contextlib.suppress(OSError):
        for folder in (cache, *cache.iterdir(), *cache.glob(f"{PARTS}/*/*")):
            sweep(folder, SCRATCH)
            sweep(folder)
    evict_sometimes(cache, settings().cache_bytes)


def _discard(target: Path) -> None:
    """Delete the result in the folder `target`. It is renamed first, so that no other process sees it half
    deleted. Raises Shortage if that fails."""
    try:
        with Scratch(target.parent.parent, SCRATCH) as folder:
            target.rename(folder / target.name)
    except OSError as error:
        raise _cannot_write(target, error) from error


def _cannot_write(target: Path, error: OSError) -> Shortage:
    """The exception to raise when writing `target` in the cache failed with `error`; its message says what
    the user can do."""
    return Shortage(
        f"{target.parent}: cannot write to the cache: {error.strerror or error}. Free some space, or "
        "set KERNELBLASTER_CACHE to another folder."
    )
