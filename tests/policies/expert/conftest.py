from collections.abc import Iterator

import pytest

from kernelblaster.api import open_device
from kernelblaster.judge.judge import DeviceJudge


@pytest.fixture(scope="module")
def judge(compiler: str) -> Iterator[DeviceJudge]:
    """A judge on the emulated device."""
    device = open_device("emulated")
    opened = DeviceJudge(device)
    yield opened
    opened.close()
    device.close()
