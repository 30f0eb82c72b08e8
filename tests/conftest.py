"""Shared by all tests: a compile cache of their own, so that nothing outside is touched."""

import os
import random
import secrets
import shutil
import tempfile
import zlib
from pathlib import Path

import hypothesis
import pytest

hypothesis.settings.register_profile("unhurried", deadline=None)  # a busy machine is no failure
hypothesis.settings.load_profile("unhurried")

os.environ.setdefault("OMP_NUM_THREADS", "1")  # tests run side by side already

BUILT = ("native", "ptx")  # what takes a minute to build, and changes seldom
KEPT = os.environ.get("KERNELBLASTER_TEST_CACHE")  # a folder in which that is kept from session to session
FIRST = "PYTEST_XDIST_WORKER" not in os.environ  # workers take over the environment of the first process

if FIRST:
    os.environ["KERNELBLASTER_CACHE"] = tempfile.mkdtemp(prefix="kernelblaster-tests-")


def _copied(source: Path, target: Path) -> None:
    for kind in BUILT:
        if (source / kind).is_dir():
            shutil.copytree(source / kind, target / kind, dirs_exist_ok=True)


def pytest_sessionstart() -> None:
    if FIRST and KEPT:
        _copied(Path(KEPT), Path(os.environ["KERNELBLASTER_CACHE"]))


def pytest_sessionfinish() -> None:
    if FIRST:
        if KEPT:
            _copied(Path(os.environ["KERNELBLASTER_CACHE"]), Path(KEPT))
        shutil.rmtree(os.environ["KERNELBLASTER_CACHE"], ignore_errors=True)


@pytest.fixture(scope="session")
def compiler() -> str:
    """nvcc's path; tests that need it are skipped where there is none."""
    from kernelblaster.devices.toolchain import toolchain
    from kernelblaster.errors import NoCompiler

    try:
        return toolchain().nvcc
    except NoCompiler as error:
        pytest.skip(str(error))


@pytest.fixture(autouse=True)
def drawn_by_name(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the judge draws in secret follows from a test's name here: a failure can be repeated."""
    rng = random.Random(zlib.crc32(request.node.nodeid.encode()))
    monkeypatch.setattr(secrets, "randbits", rng.getrandbits)
