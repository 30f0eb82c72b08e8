"""Settings from environment variables."""

from pathlib import Path

import pytest

from kernelblaster.settings import settings


def test_paths_may_be_relative(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for variable in ("CACHE", "DATA", "NVCC"):
        monkeypatch.setenv(f"KERNELBLASTER_{variable}", f"here/{variable}")
    monkeypatch.setenv("KERNELBLASTER_READABLE", "some:/other")
    found = settings()
    assert found.cache == found.results == tmp_path / "here" / "CACHE"
    assert found.data == tmp_path / "here" / "DATA"
    assert found.nvcc == str(tmp_path / "here" / "NVCC")
    assert found.readable == (tmp_path / "some", Path("/other"))
