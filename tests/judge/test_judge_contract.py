"""The judges, on one emulated device, by the same suite."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kernelblaster.api import DeviceJudge, open_judge
from kernelblaster.bench.cached_judge import CachedJudge
from kernelblaster.store.verdicts import FileVerdicts
from kernelblaster.testing.judge_contract import JudgeContract


@pytest.fixture(scope="module")
def device_judge(compiler: str) -> Iterator[DeviceJudge]:
    with open_judge("emulated") as judge:
        yield judge


class TestDeviceJudge(JudgeContract):
    @pytest.fixture
    def judge(self, device_judge: DeviceJudge) -> DeviceJudge:
        return device_judge


class TestCachedJudge(JudgeContract):
    @pytest.fixture
    def judge(self, device_judge: DeviceJudge, tmp_path: Path) -> CachedJudge:
        return CachedJudge(device_judge, FileVerdicts(tmp_path))
