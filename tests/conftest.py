"""Shared by all tests: a compile cache of their own, so that nothing outside is touched."""

import os
import tempfile

import pytest

_CACHE = tempfile.mkdtemp(prefix="kernelblaster-tests-")
os.environ["KERNELBLASTER_CACHE"] = _CACHE


@pytest.fixture(scope="session")
def compiler() -> str:
    """nvcc's path; tests that need it are skipped where there is none."""
    from kernelblaster.devices.toolchain import toolchain
    from kernelblaster.errors import NoCompiler

    try:
        return toolchain().nvcc
    except NoCompiler as error:
        pytest.skip(str(error))
