"""Integrity of a cached result: a manifest with the SHA-256 digests of its files, stored in the same folder,
written by `seal` and checked by `is_whole`."""

import hashlib
import json
from contextlib import suppress
from pathlib import Path

from kernelblaster.durability import sync

CONTENTS = "contents.json"


def seal(folder: Path, target: Path) -> None:
    """Writes the manifest (the file CONTENTS: a SHA-256 digest of each file) into `folder`, which holds a new
    cached result, and flushes all of it to disk. `target` is the folder that `folder` is about to be renamed
    to; its name goes into the manifest, so that a result moved elsewhere is not taken for another."""
    (folder / CONTENTS).write_bytes(_listed(folder, target))
    with suppress(PermissionError):  # a confined process may not, and need not
        (folder / CONTENTS).chmod(0o644)
    for path in folder.rglob("*"):
        sync(path)
    sync(folder)


def is_whole(target: Path) -> bool:
    """True if the folder `target` has exactly the files that its manifest lists, with the same digests, and
    the manifest was made for a folder of this name. False also if there is no manifest."""
    try:
        return (target / CONTENTS).read_bytes() == _listed(target, target)
    except OSError:
        return False


def _listed(folder: Path, target: Path) -> bytes:
    """The manifest of a cached result as JSON: the digest of each file now in `folder`, and the name of
    `target`, the folder that the result has or will be renamed to."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != CONTENTS)
    digests = {str(path.relative_to(folder)): _digest(path) for path in files}
    return json.dumps({"result": target.name, "files": digests}, indent=1).encode()


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:32]  # in hardware on most machines
