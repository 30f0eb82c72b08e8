"""Everything in this folder needs a real GPU: `make test-gpu`."""

import os

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "gpu" in item.path.parts:
            item.add_marker(pytest.mark.gpu)


@pytest.fixture(scope="session", autouse=True)
def short_calls() -> None:
    """For the tests of this folder, and not for those that are only collected with them."""
    os.environ.setdefault("KERNELBLASTER_CALL_LIMIT", "3")


@pytest.fixture(scope="session")
def device():  # type: ignore[no-untyped-def]
    from kernelblaster.devices.cuda import CudaDevice, why_no_gpu

    reason = why_no_gpu()
    if reason:
        pytest.skip(reason)
    opened = CudaDevice()
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def judge(device):  # type: ignore[no-untyped-def]
    from kernelblaster.judge.judge import DeviceJudge

    opened = DeviceJudge(device)
    yield opened
    opened.close()
