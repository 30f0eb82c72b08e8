"""What a bench that was killed leaves, and how the next one goes on with it."""

import fcntl
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from kernelblaster.bench import starting
from kernelblaster.bench.bench import Bench
from kernelblaster.bench.jobs import result_of
from kernelblaster.bench.starting import start_knowledge
from kernelblaster.bench.working import WORKING, begin_work, taking_part
from kernelblaster.errors import KernelBlasterError, StoreError
from kernelblaster.knowledge.knowledge_base import KnowledgeBase
from kernelblaster.knowledge.seed import plant
from kernelblaster.processes.crew import Crew, Line
from kernelblaster.store import events
from kernelblaster.store.run import LOG
from kernelblaster.testing.made_bench import made_bench


def take_part(line: Line, folder: Path) -> None:
    with taking_part(folder):
        line.tell("here")
        for _ in line.jobs():
            time.sleep(600)


def test_the_next_bench_waits_for_processes_of_the_one_before(tmp_path: Path) -> None:
    crew = Crew(take_part, [(tmp_path,)])
    assert next(crew.heard(["a long job"])) == "here"
    with pytest.raises(StoreError, match="still at work on it"):
        begin_work(tmp_path, limit_s=0.1)
    crew.kill()
    with begin_work(tmp_path, limit_s=10.0), taking_part(tmp_path):
        pass


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
        patched.setattr(starting, "plant", half)
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
