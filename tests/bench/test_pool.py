"""Several searching processes beside one that owns the device."""

from contextlib import closing
from pathlib import Path

from kernelblaster.bench.jobs import Job, Setup
from kernelblaster.bench.pool import WorkerPool, search_all
from kernelblaster.bench.searching import News, begun_runs
from kernelblaster.bench.suite import entries_of
from kernelblaster.fleet.dispatcher import Dispatcher
from kernelblaster.fleet.leases import PassingLeases
from kernelblaster.fleet.local_fleet import LocalFleet
from kernelblaster.knowledge.initial import start_knowledge
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
    with closing(Dispatcher(LocalFleet(machines=1), PassingLeases())) as dispatcher:
        search_all(jobs, pool, heard.append, dispatcher)
    results = {news.job: news.result for news in heard if news.result}
    statuses = {job.key: "valid" for job in jobs[:-1]} | {jobs[-1].key: "died"}
    assert {key: result.status for key, result in results.items()} == statuses
    assert {news.kind for news in heard} >= {"began", "ended", "busy"}
    ended = [place for place, news in enumerate(heard) if news.kind == "ended"]
    busy = [place for place, news in enumerate(heard) if news.kind == "busy"]
    assert busy[0] < ended[-1]  # told while others are still searched
    assert set(begun_runs(tmp_path / "bench")) == {job.key for job in jobs[:-1]}
