"""Shared by all tests: a compile cache of their own, so that nothing outside is touched."""

import os
import random
import secrets
import shutil
import tempfile
import zlib

import hypothesis
import pytest

hypothesis.settings.register_profile("unhurried", deadline=None)  # a busy machine is no failure
hypothesis.settings.load_profile("unhurried")

os.environ.setdefault("OMP_NUM_THREADS", "1")  # tests run side by side already

if "PYTEST_XDIST_WORKER" not in os.environ:  # workers take over the environment of the first process
    os.environ["KERNELBLASTER_CACHE"] = tempfile.mkdtemp(prefix="kernelblaster-tests-")


def pytest_sessionfinish() -> None:
    if "PYTEST_XDIST_WORKER" not in os.environ:
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
