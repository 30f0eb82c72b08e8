"""What code of a task leaves running ends with its command."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kernelblaster import survivors

LEAVING = """
import os, time
from kernelblaster import keeper
from kernelblaster.confinement import seccomp
os.environ["KERNELBLASTER_KEEPER"] = "-1"
keeper.use(lambda door, hidden: door.recv(1))  # until nobody has the other end
keeper.start()
seccomp.install()
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        os.closerange(0, 64)
        if os.fork() == 0:
            time.sleep(600)
        os._exit(0)
    os.wait()
print(open("/proc/self/oom_score_adj").read(), flush=True)
{end}
"""


def left(mark: int) -> list[int]:
    return [pid for pid, value in survivors._marks() if value == mark]


def ended(end: str) -> bool:
    """Whether nothing is left 10 s after a command that left three processes, and ended in this way."""
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(Path("src").absolute())}
    code = LEAVING.replace("{end}", end)
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60
    )
    mark = int(done.stdout)
    assert mark % 5, done.stderr
    deadline = time.monotonic() + 10
    while left(mark) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not left(mark)


def test_what_was_left_ends_with_the_command() -> None:
    assert ended("")


def test_and_where_the_command_is_killed() -> None:
    assert ended("os.kill(os.getpid(), 9)")


MARKED = """
import random
from kernelblaster import survivors
{before}
random.SystemRandom.choice = lambda self, free: free[0]
print(survivors.take_mark(), open("/proc/self/oom_score_adj").read())
"""
LATE = """
others = survivors._others
def late():  # another command takes the same one in between: it is not there yet at the first look
    survivors._others = others
    return iter(())
survivors._others = late
"""


def marked(before: str) -> int:
    """The mark that a command takes which would take the lowest one."""
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(Path("src").absolute())}
    code = MARKED.replace("{before}", before)
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    mark, own = map(int, done.stdout.split())
    assert mark == own and mark % 5
    return mark


@pytest.mark.parametrize("before", ["", LATE])
def test_two_commands_that_begin_together_have_different_marks(before: str) -> None:
    lowest = marked("")
    other = subprocess.Popen(["sleep", "60"])  # has taken its mark, and is about to confine itself
    try:
        Path(f"/proc/{other.pid}/oom_score_adj").write_text(str(lowest))
        assert marked(before) != lowest
    finally:
        other.kill()
        other.wait()


def test_a_mark_that_the_system_refuses_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(survivors, "OWN", tmp_path / "nowhere")
    assert survivors.take_mark() is None


def test_without_a_handle_of_its_command_the_keeper_ends_with_it() -> None:
    code = """
import os, time
from kernelblaster import keeper
def refuse(*_):
    raise OSError(38, "as before Linux 5.3")
os.pidfd_open = refuse
os.environ["KERNELBLASTER_KEEPER"] = "-1"
keeper.use(lambda door, hidden: time.sleep(600))
keeper.start()
print(open(f"/proc/self/task/{os.getpid()}/children").read())
"""
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(Path("src").absolute())}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60
    )
    kept = Path(f"/proc/{int(done.stdout)}")
    deadline = time.monotonic() + 10
    while kept.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not kept.exists()
