"""Compiled candidates travel whole, or not at all."""

from dataclasses import replace
from pathlib import Path

import pytest

from kernelblaster import cache
from kernelblaster.errors import Shortage
from kernelblaster.fleet.compiled_object import CompiledObject, pack, unpack
from kernelblaster.judge.compile import CACHED, OBJECT, REPORT, Binary
from kernelblaster.records import Compilation

REPORTED = Compilation(seconds=1.0, cached=False, architecture="sm_90a", compiler="nvcc", resources=())
KEY = "0123456789abcdef" * 2


@pytest.fixture
def packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CompiledObject:
    """Of a candidate in the cache of one machine; from then on this is another machine."""
    monkeypatch.setenv("KERNELBLASTER_CACHE", str(tmp_path / "one"))
    target = cache.entry(CACHED, KEY)
    with cache.filling(target) as folder:
        (folder / REPORT).write_text(REPORTED.model_dump_json())
        (folder / OBJECT).write_bytes(b"code")
        (folder / OBJECT).chmod(0o755)
    one = pack(Binary(target / OBJECT, REPORTED))
    monkeypatch.setenv("KERNELBLASTER_CACHE", str(tmp_path / "two"))
    return one


def test_what_is_unpacked_is_what_was_packed(packed: CompiledObject) -> None:
    binary = unpack(packed)
    assert binary.path.read_bytes() == b"code" and binary.path.stat().st_mode & 0o777 == 0o755
    assert binary.compilation == REPORTED and cache.is_stored(binary.path.parent)
    assert pack(binary) == packed
    modified = binary.path.stat().st_mtime_ns
    assert unpack(packed).path.stat().st_mtime_ns == modified  # it is there already


@pytest.mark.parametrize(
    "files",
    [
        ((OBJECT, 0o755, b"other code"), (REPORT, 0o644, b"{}")),
        ((OBJECT, 0o755, b"code"),),
        (("../../escaped", 0o755, b"code"),),
    ],
)
def test_what_was_changed_is_refused(packed: CompiledObject, files: object, tmp_path: Path) -> None:
    with pytest.raises(Shortage, match="damaged on its way"):
        unpack(replace(packed, files=files))  # type: ignore[arg-type]
    assert not (tmp_path / "two").exists()


def test_a_file_or_key_of_another_kind_is_refused(packed: CompiledObject, tmp_path: Path) -> None:
    from kernelblaster.fleet.compiled_object import _digest

    escaping = (("../../candidate.so", 0o755, b"code"),)
    with pytest.raises(Shortage, match="none of its parts"):
        unpack(replace(packed, files=escaping, digest=_digest(escaping)))
    with pytest.raises(Shortage, match="damaged on its way"):
        unpack(replace(packed, key="../../elsewhere"))
    assert not list(tmp_path.rglob("escaped*"))
