"""What does not fit into memory is refused before anything is made, in one sentence."""

from pathlib import Path

import pytest
import torch

from kernelblaster.errors import BadTask
from kernelblaster.judge import needs as memory
from kernelblaster.judge import prepare
from kernelblaster.judge.needs import MemoryRoom, check_memory, needs_of
from kernelblaster.judge.options import EvaluationOptions
from kernelblaster.judge.prepare import TaskPreparer
from kernelblaster.records import Task
from kernelblaster.tasks.catalog import load_task
from kernelblaster.testing.fake_device import FakeDevice

GB = 10**9
LARGE = """
import torch, torch.nn as nn
rows, cols, wide = 1 << 17, 1 << 15, 1 << 14
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(cols, wide)
    def forward(self, x):
        return self.linear(x)
def get_inputs():
    return [torch.randn(rows, cols)]
def get_init_inputs():
    return []
"""


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Task:
    path: Path = tmp_path_factory.mktemp("task") / "large.py"
    path.write_text(LARGE)
    return load_task(str(path))


def test_what_a_large_product_needs(large: Task) -> None:
    needs = needs_of(large)
    read, parameters, written = 17.2, 2.15, 8.59
    assert needs.host / GB == pytest.approx(parameters, rel=0.01)
    expected = read + parameters + written + 2 * parameters + 4 * written
    assert needs.device / GB == pytest.approx(expected, rel=0.01)


def test_it_is_refused_in_one_sentence_where_it_does_not_fit(large: Task) -> None:
    check_memory(large, MemoryRoom(140 * GB, 64 * GB))
    with pytest.raises(
        BadTask, match=r"does not fit: .* at least 66\.\d GB of device memory .* has 48\.0 GB"
    ):
        check_memory(large, MemoryRoom(48 * GB, 64 * GB))
    with pytest.raises(BadTask, match=r"parameters take 2\.1 GB of host memory, of which 1\.0 GB are avail"):
        check_memory(large, MemoryRoom(140 * GB, GB))
    check_memory(large, MemoryRoom(None, GB))
    check_memory(large, MemoryRoom(140 * GB, None))


def test_nothing_is_begun_before(large: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepare, "room_on", lambda device: MemoryRoom(24 * GB, 64 * GB))
    monkeypatch.setattr(prepare, "fitness_of", lambda *_: pytest.fail("the task was run"))
    preparer = TaskPreparer(
        FakeDevice(large.signature), EvaluationOptions(), lambda *_: pytest.fail(""), None
    )
    with pytest.raises(BadTask, match="does not fit"):
        preparer.prepare(large)


def test_pytorch_without_memory_is_the_same_sentence(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise torch.cuda.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(prepare, "fitness_of", full)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda *_: (3 * GB, 24 * GB))
    preparer = TaskPreparer(FakeDevice(task.signature), EvaluationOptions(), lambda *_: pytest.fail(""), None)
    with pytest.raises(BadTask, match=r"does not fit: .* 3\.0 GB are free"):
        preparer.prepare(task)


def test_a_limit_of_the_group_counts_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "meminfo").write_text("MemTotal: 9000000 kB\nMemAvailable:    4000000 kB\n")
    monkeypatch.setattr(memory, "MEMINFO", tmp_path / "meminfo")
    monkeypatch.setattr(memory, "CGROUP", tmp_path)
    assert memory.room_on(torch.device("cpu")) == MemoryRoom(None, 4_000_000 << 10)
    (tmp_path / "memory.max").write_text("max\n")
    assert memory.room_on(torch.device("cpu")).host == 4_000_000 << 10
    (tmp_path / "memory.max").write_text("3000000000\n")
    assert memory.room_on(torch.device("cpu")).host == 3 * GB
    monkeypatch.setattr(memory, "MEMINFO", tmp_path / "none")
    (tmp_path / "memory.max").unlink()
    assert memory.room_on(torch.device("cpu")).host is None
