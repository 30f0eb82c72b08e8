"""Processes end with the one that started them, and nothing waits for ever for one that was killed."""

import gc
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernelblaster.processes.leashed import run_leashed
from kernelblaster.processes.workers import JobPipe, LostJob, Workers, run_with_retry

ROOT = """
import sys
from pathlib import Path
sys.path.insert(0, {here!r})
import test_processes
from kernelblaster.processes.workers import Workers

if __name__ == "__main__":
    crew = Workers(test_processes.report_and_wait, [(sys.argv[1],)] * 2)
    for heard in crew.replies(range(500)):
        pass
"""
STARTING = """
import os, time
from pathlib import Path
from kernelblaster.processes.workers import Workers

def work(line):
    pass

if os.environ.setdefault("FIRST", str(os.getpid())) != str(os.getpid()):
    (Path(__file__).parent / f"{os.getpid()}.pid").touch()
    time.sleep(600)
"""
LEASHED = """
import sys
from kernelblaster.processes.leashed import run_leashed
run_leashed(["sh", "-c", "sleep 600 & echo $! >$0; mv $0 $0.pid; wait", sys.argv[1] + "/sleep"], limit_s=600)
"""


def report_and_wait(line: JobPipe, folder: str) -> None:
    for job in line.jobs():
        line.tell("x" * 100_000)
        (Path(folder) / f"{os.getpid()}.pid").touch()
        if job >= 2:
            time.sleep(600)


def double(line: JobPipe) -> None:
    for job in line.jobs():
        if job == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        if job == "exit":
            os._exit(0)
        line.tell(2 * job)


def die_once(line: JobPipe, mark: Path) -> None:
    for job in line.jobs():
        if not mark.exists():
            mark.touch()
            os._exit(0)
        line.tell(job)


def let_go(line: JobPipe) -> None:
    for _ in line.jobs():
        line.disown_job()
        line.tell("the disk is full")
        return


def pids(folder: Path, count: int) -> list[int]:
    """The processes that wrote down their numbers, as soon as so many have."""
    until = time.monotonic() + 60
    while len(found := list(folder.glob("*.pid"))) < count:
        assert time.monotonic() < until
        time.sleep(0.02)
    return [int(path.stem) if path.stem.isdigit() else int(path.read_text()) for path in found]


def lives(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False


@pytest.fixture
def gone() -> Iterator[list[int]]:
    """What is put in must have ended a little later."""
    left: list[int] = []
    yield left
    until = time.monotonic() + 20
    while any(map(lives, left)) and time.monotonic() < until:
        time.sleep(0.02)
    living = [pid for pid in left if lives(pid)]
    for pid in living:
        os.kill(pid, signal.SIGKILL)
    assert not living


def test_a_crew_ends_with_the_process_that_was_killed(tmp_path: Path, gone: list[int]) -> None:
    program = tmp_path / "root.py"
    program.write_text(ROOT.format(here=str(Path(__file__).parent)))
    root = subprocess.Popen([sys.executable, str(program), str(tmp_path)])
    gone += pids(tmp_path, 2)
    root.kill()
    root.wait()


def test_a_process_that_is_still_starting_ends_with_the_one_that_was_killed(
    tmp_path: Path, gone: list[int]
) -> None:
    (tmp_path / "slow.py").write_text(STARTING)
    words = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import slow; "
    words += "list(slow.Workers(slow.work, [()]).replies([]))"
    root = subprocess.Popen([sys.executable, "-c", words])
    gone += pids(tmp_path, 1)
    root.kill()
    root.wait()


def test_what_a_compiler_started_ends_with_the_process_that_was_killed(
    tmp_path: Path, gone: list[int]
) -> None:
    root = subprocess.Popen([sys.executable, "-c", LEASHED, str(tmp_path)])
    gone += pids(tmp_path, 1)
    root.kill()
    root.wait()


def test_what_a_compiler_started_ends_at_its_time_limit(tmp_path: Path, gone: list[int]) -> None:
    command = ["sh", "-c", "sleep 600 & echo $! >$0; mv $0 $0.pid; wait", str(tmp_path / "sleep")]
    assert run_leashed(command, limit_s=1.0) == (None, "")
    gone += pids(tmp_path, 1)


def test_the_code_and_the_output_of_a_command() -> None:
    assert run_leashed(["sh", "-c", "echo out; echo err >&2; exit 3"], limit_s=60) == (3, "out\nerr\n")
    assert run_leashed(["sh", "-c", "kill -9 $$"], limit_s=60)[0] == 128 + 9
    code, _ = run_leashed([sys.executable, "-c", "bytearray(1 << 30)"], limit_s=60, memory_bytes=1 << 29)
    assert code == 1


def die_at_first(pipe: JobPipe, mark: Path) -> None:
    """Ends its process before it takes a job, unless the mark is there."""
    if not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    for job in pipe.jobs():
        pipe.tell(job)


def test_jobs_are_handed_out_once_each() -> None:
    assert sorted(run_with_retry(double, (), list(range(40)), workers=2)) == [2 * n for n in range(40)]


def test_a_process_that_is_killed_takes_no_other_with_it() -> None:
    crew = Workers(double, [()] * 2)
    assert sorted(crew.replies(["die", *range(500)])) == [2 * n for n in range(500)]
    assert crew.failures == [-signal.SIGKILL]
    assert crew.lost_jobs == [LostJob("die", -signal.SIGKILL)]


def test_a_job_that_ends_its_process_is_told_and_the_others_go_on() -> None:
    """However it does: the first one leaves with 0, as if all were well. One worker keeps the order, so that
    a bench whose process was lost learns in the same order as one that was left alone."""
    found = list(run_with_retry(double, (), iter(["exit", *range(5), "die", 5]), workers=1))
    assert found == [LostJob("exit", 0), 0, 2, 4, 6, 8, LostJob("die", -signal.SIGKILL), 10]
    found = list(run_with_retry(double, (), iter(["exit", *range(5), "die", 5]), workers=2))
    assert sorted(one for one in found if isinstance(one, int)) == [0, 2, 4, 6, 8, 10]
    assert {one.job for one in found[-2:]} == {"exit", "die"}


def test_no_job_is_forgotten_with_a_process_that_ends_before_it_takes_any(tmp_path: Path) -> None:
    told = list(run_with_retry(die_at_first, (tmp_path / "mark",), [1, 2, 3], workers=1))
    assert told == [1, 2, 3]
    never = tmp_path / "missing" / "mark"  # cannot be made: each process ends
    assert list(run_with_retry(die_at_first, (never,), [1, 2], workers=1)) == [LostJob(1, 1), LostJob(2, 1)]


def test_a_job_is_blamed_only_if_it_ends_another_process_by_itself(tmp_path: Path) -> None:
    assert list(run_with_retry(die_once, (tmp_path / "mark",), ["job"], workers=1)) == ["job"]
    assert list(run_with_retry(let_go, (), ["job"], workers=1)) == ["the disk is full"]


def tell_of_garbage(line: JobPipe) -> None:
    for _ in line.jobs():
        line.tell((gc.get_threshold(), gc.get_freeze_count() > 0))


def test_a_worker_looks_for_garbage_as_usual_once_its_modules_are_loaded() -> None:
    usual = subprocess.run(
        [sys.executable, "-c", "import gc; print(gc.get_threshold())"],
        capture_output=True,
        text=True,
        check=True,
    )
    ((thresholds, frozen),) = Workers(tell_of_garbage, [()]).replies([1])
    assert (str(thresholds), frozen) == (usual.stdout.strip(), True)
