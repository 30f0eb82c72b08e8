"""Compiled candidates as values that travel between machines, identified by their content."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from kernelblaster import cache
from kernelblaster.cache.contents import CONTENTS
from kernelblaster.devices.device_code import OBJECT
from kernelblaster.errors import Shortage
from kernelblaster.judge.compile import CACHED, KEPT, REPORT, Binary
from kernelblaster.records import Compilation


@dataclass(frozen=True)
class CompiledObject:
    """A compiled candidate with all files that belong to it, as a value that can be sent to another machine.
    `key` is its name in the compile cache: a hash of its source and of the options of the compiler. `files`
    are (name, permissions, content), sorted by name; `digest` is a hash of them."""

    key: str
    digest: str
    files: tuple[tuple[str, int, bytes], ...]


def pack(binary: Binary) -> CompiledObject:
    """Returns the compiled candidate `binary`, which is in this machine's compile cache, as a value that can
    be sent to another machine: all files of its folder there."""
    folder = binary.path.parent
    paths = sorted(path for path in folder.iterdir() if path.name != CONTENTS)
    files = tuple((path.name, path.stat().st_mode & 0o777, path.read_bytes()) for path in paths)
    return CompiledObject(folder.name, _digest(files), files)


def unpack(compiled: CompiledObject) -> Binary:
    """Put a compiled candidate that came from another machine into this machine's compile cache, unless it is
    there already, and return it. Raises Shortage if its content is not what was packed, or the cache cannot
    be written."""
    if _digest(compiled.files) != compiled.digest or not _is_name(compiled.key):
        raise Shortage(f"compiled candidate {compiled.key}: was damaged on its way to this machine.")
    target = cache.entry(CACHED, compiled.key)
    if not cache.is_stored(target):
        with cache.filling(target) as folder:
            for name, mode, content in compiled.files:
                _write(folder, name, mode, content)
            folder.chmod(0o755)  # the recorder's child is another user
    report = (target / REPORT).read_text()
    return Binary(target / OBJECT, Compilation.model_validate_json(report))


def _write(folder: Path, name: str, mode: int, content: bytes) -> None:
    """Writes one file of a compiled candidate that came from another machine to `folder`, with these
    permissions (`mode`) and this content. Raises Shortage for a file name that compiled candidates do not
    have."""
    if name not in (*KEPT, REPORT):
        raise Shortage(f"compiled candidate: has a file {name!r}, which is none of its parts.")
    (folder / name).write_bytes(content)
    (folder / name).chmod(mode & 0o755)


def _digest(files: tuple[tuple[str, int, bytes], ...]) -> str:
    """A hash (SHA-256, hexadecimal) of files with their names and permissions; each is (name, permissions,
    content)."""
    digest = hashlib.sha256()
    for name, mode, content in files:
        digest.update(f"{name} {mode:o} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()


def _is_name(key: str) -> bool:
    """Whether `key` can be a name in the compile cache: 32 hexadecimal digits, so that it cannot lead to
    another folder."""
    return len(key) == 32 and all(digit in "0123456789abcdef" for digit in key)
