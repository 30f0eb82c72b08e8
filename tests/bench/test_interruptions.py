"""What a bench that was killed leaves, and how the next one goes on with it."""

import fcntl
from pathlib import Path
from types import SimpleNamespace

import pytest

from kernelblaster.bench.bench import Bench
from kernelblaster.bench.cached_judge import CachedJudge
from kernelblaster.bench.jobs import Job, Setup, result_of
from kernelblaster.bench.searching import search
from kernelblaster.bench.suite import entries_of
from kernelblaster.bench.work_lock import WORKING
from kernelblaster.errors import KernelBlasterError, NoDevice, Shortage
from kernelblaster.knowledge import initial
from kernelblaster.knowledge.initial import start_knowledge
from kernelblaster.knowledge.knowledge_base import KnowledgeBase
from kernelblaster.knowledge.seed import plant
from kernelblaster.records import Candidate
from kernelblaster.sessions.settings import Search
from kernelblaster.store import events
from kernelblaster.store.run import LOG
from kernelblaster.store.verdicts import FileVerdicts
from kernelblaster.tasks.catalog import load_task
from kernelblaster.testing.made_bench import made_bench
from tests.test_optimize import WorldJudge


def test_a_bench_holds_the_lock_that_its_processes_share(tmp_path: Path) -> None:
    with made_bench(tmp_path / "b", tasks=1, steps=1), (tmp_path / "b" / WORKING).open() as other:
        fcntl.flock(other, fcntl.LOCK_SH | fcntl.LOCK_NB)
        with pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_a_knowledge_base_is_there_in_full_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def half(knowledge: KnowledgeBase) -> None:
        plant(knowledge)
        raise KeyboardInterrupt

    where = tmp_path / "kb.db"
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(initial, "plant", half)
        start_knowledge("seed", where)
    assert not where.exists()
    start_knowledge("seed", where)
    start_knowledge(str(where), tmp_path / "copy.db")
    with KnowledgeBase(where) as one, KnowledgeBase(tmp_path / "copy.db") as other:
        assert one.version == other.version > 0
    assert not list(tmp_path.glob("*.new*"))


def test_a_bench_that_was_killed_at_its_very_beginning_begins_again(tmp_path: Path) -> None:
    plan = made_bench(tmp_path / "other", tasks=1, steps=1).plan
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / LOG).write_text('{"number":0,"at":1')
    with Bench.open(tmp_path / "b", plan) as bench:
        assert bench.plan == plan
    with pytest.raises(KernelBlasterError, match="holds something else already"):
        Bench.open(next((tmp_path / "other" / "runs").iterdir()), plan)


def test_how_long_it_took_does_not_depend_on_the_time_of_day(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock on the wall is set back an hour while it searches."""
    plan = made_bench(tmp_path / "other", tasks=8, steps=1).plan
    ticks, walls = iter(range(1000)), iter(range(10**6, 0, -3600))
    clock = SimpleNamespace(time=lambda: float(next(walls)), monotonic=lambda: float(next(ticks)))
    monkeypatch.setattr(events, "time", clock)
    with Bench.open(tmp_path / "b", plan) as bench:
        bench._run.append("searching")
        for job in plan.jobs:
            result = result_of(job, "failed").model_dump(mode="json")
            bench._run.once("result", job.key, lambda found=result: found)  # type: ignore[misc]
        assert bench.pace.seconds == len(plan.jobs)


def test_a_verdict_that_is_not_what_was_kept_is_judged_again(tmp_path: Path) -> None:
    judge = WorldJudge()
    kept = CachedJudge(judge, FileVerdicts(tmp_path))  # type: ignore[arg-type]
    task, candidate = load_task("core/level1/gelu"), Candidate(source="first")
    (first,) = kept.evaluate_many([(task, candidate)])
    assert list(kept.evaluate_many([(task, candidate)])) == [first] and len(judge.judged) == 1
    (file,) = tmp_path.rglob("*.json")
    file.write_bytes(file.read_bytes().replace(b"0.99", b"0.95"))
    assert list(kept.evaluate_many([(task, candidate)])) == [first] and len(judge.judged) == 2
    assert list(kept.evaluate_many([(task, candidate)])) == [first] and len(judge.judged) == 2


@pytest.mark.parametrize("error", [MemoryError(), Shortage("the cache is full"), NoDevice("no sandbox")])
def test_what_the_machine_lacks_is_no_result_of_a_task(tmp_path: Path, error: Exception) -> None:
    class Short:
        def prepare(self, task: object) -> None:
            raise error

    setup = Setup(device="emulated", gpu="h200", search=Search(), knowledge=str(tmp_path / "kb.db"))
    (entry,) = entries_of(["core/level1/gelu"])
    job = Job(arm="a", entry=entry, seed=0, setup=setup)
    with pytest.raises((Shortage, NoDevice)):
        search(job, Short(), tmp_path, None, lambda news: None)  # type: ignore[arg-type]
