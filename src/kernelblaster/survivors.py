"""Kills processes that outlive their command. The code of a task file can leave a process without a parent;
the keeper (the command's helper process) ends such processes after the command.

All processes of a command have a mark by which they are found: their `oom_score_adj`, a number in /proc. A
process inherits it from the process that started it, and a confined process cannot change it. When a command
begins, it takes a number that no other process of the machine has. The keeper has the same number, so that no
other command takes it while the keeper looks for survivors. A side effect: when memory runs out, the kernel
ends marked processes a little before others.
"""

import contextlib
import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

OWN = Path("/proc/self/oom_score_adj")
SPAN = 199  # above what this process has; values that end in 0 or 5 are in use by others
MOST = 1000
ATTEMPTS = 8  # to take a mark that nobody takes at the same moment
LIMIT_S = 5.0
PAUSE_S = 0.02


def take_mark() -> int | None:
    """Gives this process, and all that it starts from now on, an `oom_score_adj` that no other process has,
    and returns it. It is the mark by which `end_survivors` finds the processes of this command. Returns None
    if no number is free or the system refuses. Two commands never keep the same mark, even if they begin at
    the same moment: after taking a number, this function checks whether another process has it too, and takes
    another number in that case."""
    try:
        before = int(OWN.read_text())
        for _ in range(ATTEMPTS):
            used = {value for _, value in _others()}
            free = [v for v in range(before + 1, min(before + 1 + SPAN, MOST)) if v % 5 and v not in used]
            if not free:
                break
            mark = random.SystemRandom().choice(free)
            OWN.write_text(str(mark))
            if all(value != mark for _, value in _others()):
                return mark
        OWN.write_text(str(before))
    except (OSError, ValueError):
        pass
    return None


def end_survivors(mark: int) -> int:
    """Kills all confined processes whose `oom_score_adj` is `mark`, except this one; returns how many.
    Repeats this until none is left, for at most five seconds (LIMIT_S), since a process may start others
    before it is killed."""
    ended: set[int] = set()
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline:
        found = {pid for pid, value in _marks() if value == mark}
        if not found:
            break
        for pid in found:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        ended |= found
        time.sleep(PAUSE_S)
    return len(ended)


def _marks() -> Iterator[tuple[int, int]]:
    """The process id and the `oom_score_adj` of each live confined process (seccomp filter, no new
    privileges), except this one, whose value is no multiple of 5."""
    for pid, value in _others():
        with contextlib.suppress(OSError, ValueError):
            if value % 5:
                text = Path(f"/proc/{pid}/status").read_text()
                about = dict(line.split(":\t", 1) for line in text.splitlines())
                lives = about["State"][0] not in "ZX"
                if lives and about.get("Seccomp") == "2" and about.get("NoNewPrivs") == "1":
                    yield pid, value


def _others() -> Iterator[tuple[int, int]]:
    """The process id and the `oom_score_adj` of every process but this one."""
    for folder in Path("/proc").glob("[0-9]*"):
        if int(folder.name) != os.getpid():
            with contextlib.suppress(OSError, ValueError):
                yield int(folder.name), int((folder / "oom_score_adj").read_text())
