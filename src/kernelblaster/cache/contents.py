"""Integrity of a cached result: a manifest with the digests of its files, stored beside them."""

import hashlib
import json
from pathlib import Path

from kernelblaster.durability import sync

CONTENTS = "contents.json"


def seal(folder: Path, target: Path) -> None:
    """Write the manifest of a folder that is to be renamed to `target`, and fsync everything in it."""
    (folder / CONTENTS).write_bytes(_listed(folder, target))
    (folder / CONTENTS).chmod(0o644)
    for path in folder.rglob("*"):
        sync(path)
    sync(folder)


def is_whole(target: Path) -> bool:
    """Whether the folder has exactly the files of its manifest, unchanged, and the manifest is that of
    `target`."""
    try:
        return (target / CONTENTS).read_bytes() == _listed(target, target)
    except OSError:
        return False


def _listed(folder: Path, target: Path) -> bytes:
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != CONTENTS)
    digests = {str(path.relative_to(folder)): _digest(path) for path in files}
    return json.dumps({"result": target.name, "files": digests}, indent=1).encode()


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:32]  # in hardware on most machines
