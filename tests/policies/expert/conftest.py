from collections.abc import Iterator

import pytest

from kernelblaster.api import open_device
from kernelblaster.judge.judge import Judge


@pytest.fixture(scope="module")
def judge(compiler: str) -> Iterator[Judge]:
    """A judge on the emulated device."""
    device = open_device("emulated")
    opened = Judge(device)
    yield opened
    opened.close()
    device.close()
