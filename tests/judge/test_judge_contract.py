"""The three judges, on one emulated device, by the same suite."""

import os
from collections.abc import Iterator
from contextlib import closing
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Thread

import pytest

from kernelblaster.api import DeviceJudge, open_judge
from kernelblaster.bench.cached_judge import CachedJudge
from kernelblaster.judge.shared import JudgeServer, SharedJudge
from kernelblaster.testing.judge_contract import JudgeContract


@pytest.fixture(scope="module")
def device_judge(compiler: str) -> Iterator[DeviceJudge]:
    with open_judge("emulated") as judge:
        yield judge


class TestDeviceJudge(JudgeContract):
    @pytest.fixture
    def judge(self, device_judge: DeviceJudge) -> DeviceJudge:
        return device_judge


class TestSharedJudge(JudgeContract):
    @pytest.fixture
    def judge(self, device_judge: DeviceJudge) -> Iterator[SharedJudge]:
        """Served by a thread of this process, which keeps a copy of the end that the server closes."""
        server = JudgeServer(device_judge)
        shared = server.connect()
        shared._connection = Connection(os.dup(shared._connection.fileno()))
        serving = Thread(target=server.serve)
        serving.start()
        with closing(shared):
            yield shared
        serving.join()


class TestCachedJudge(JudgeContract):
    @pytest.fixture
    def judge(self, device_judge: DeviceJudge, tmp_path: Path) -> CachedJudge:
        return CachedJudge(device_judge, tmp_path)
