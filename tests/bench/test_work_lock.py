"""The lock that the processes of a bench hold together. (Apart: what it starts need not load PyTorch.)"""

import time
from pathlib import Path

import pytest

from kernelblaster.bench.work_lock import acquire_work_lock, share_work_lock
from kernelblaster.errors import StoreError
from kernelblaster.processes.workers import JobPipe, Workers


def take_part(line: JobPipe, folder: Path) -> None:
    with share_work_lock(folder):
        line.tell("here")
        for _ in line.jobs():
            time.sleep(600)


def test_the_next_bench_waits_for_processes_of_the_one_before(tmp_path: Path) -> None:
    crew = Workers(take_part, [(tmp_path,)])
    assert next(crew.replies(["a long job"])) == "here"
    with pytest.raises(StoreError, match="still at work on it"):
        acquire_work_lock(tmp_path, limit_s=0.1)
    crew.kill()
    with acquire_work_lock(tmp_path, limit_s=10.0), share_work_lock(tmp_path):
        pass
