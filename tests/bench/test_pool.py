"""Several searching processes beside one that owns the device."""

from pathlib import Path

from kernelblaster.bench.jobs import Job, Setup
from kernelblaster.bench.pool import WorkerPool, search_in_workers
from kernelblaster.bench.searching import News, begun_runs
from kernelblaster.bench.suite import entries_of
from kernelblaster.judge.shared import JudgeServer
from kernelblaster.knowledge.initial import start_knowledge
from kernelblaster.opening import open_searching
from kernelblaster.processes.workers import LostJob
from kernelblaster.sessions.settings import Search

TASK = """
import torch, torch.nn as nn
rows = 512
SMALL = {"rows": 5}
class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x) + %s
def get_inputs():
    return [torch.randn(rows, 256)]
def get_init_inputs():
    return []
"""


def test_one_process_owns_the_device_and_others_search(compiler: str, tmp_path: Path) -> None:
    """As on a GPU, with the emulated device in its place. One that ends its process is told of."""
    (tmp_path / "suite").mkdir()
    for number in (1, 2):
        (tmp_path / "suite" / f"plus_{number}.py").write_text(TASK % f"{number}.0")
    (tmp_path / "suite" / "then_ends.py").write_text(TASK % "3.0" + "import os; os._exit(0)")
    start_knowledge("seed", tmp_path / "kb.db")
    setup = Setup(
        device="emulated", gpu="h200", search=Search(evaluations=1), knowledge=str(tmp_path / "kb.db")
    )
    jobs = [Job(arm="a", entry=e, seed=0, setup=setup) for e in entries_of([str(tmp_path / "suite")])]
    heard: list[News] = []
    pool = WorkerPool(tmp_path / "bench", workers=1)
    with open_searching("emulated", "h200") as judge:
        server = JudgeServer(judge)
        fallen = search_in_workers(jobs, 1, pool, heard.append, server.serve, server.connect)
    results = {news.job: news.result for news in heard if news.result}
    assert fallen == [LostJob(jobs[-1], 0)]
    assert {job.key for job in jobs[:-1]} == set(results)
    assert [result.status for result in results.values()] == ["valid", "valid"]
    assert {news.kind for news in heard} >= {"began", "ended"}
    assert set(begun_runs(tmp_path / "bench")) == set(results)
