"""Kills processes that outlive their command. The code of a task file can leave a process without a parent;
the keeper (the command's helper process) ends such processes after the command.

They are recognized by the value `oom_score_adj` (in /proc), which a process inherits from the one that
started it and which a confined process cannot change. A command takes a value that no other confined process
of the machine has. A side effect: when memory runs out, the kernel ends these processes a little before
others.
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
LIMIT_S = 5.0
PAUSE_S = 0.02


def free_mark() -> int | None:
    """An `oom_score_adj` value that no confined process of this machine has now, by which the processes of
    this command can be recognized; None if none is free, or /proc cannot be read."""
    try:
        least = int(OWN.read_text()) + 1
    except (OSError, ValueError):
        return None
    used = {value for _, value in _marks()}
    free = [v for v in range(least, min(least + SPAN, MOST)) if v % 5 and v not in used]
    return random.SystemRandom().choice(free) if free else None


def wear(mark: int) -> None:
    """Give this process, and all that it starts from now on, the `oom_score_adj` value `mark`. Does nothing
    where the system refuses."""
    with contextlib.suppress(OSError):
        OWN.write_text(str(mark))


def end_survivors(mark: int) -> int:
    """Kills all confined processes whose `oom_score_adj` is `mark`, except this one; returns how many.
    Repeats this until none is left, for at most five seconds (LIMIT_S), since a process may start others
    before it is killed."""
    ended: set[int] = set()
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline:
        found = {pid for pid, value in _marks() if value == mark and pid != os.getpid()}
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
    privileges) whose value is no multiple of 5."""
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError):
            value = int((folder / "oom_score_adj").read_text())
            if value % 5:
                about = dict(line.split(":\t", 1) for line in (folder / "status").read_text().splitlines())
                lives = about["State"][0] not in "ZX"
                if lives and about.get("Seccomp") == "2" and about.get("NoNewPrivs") == "1":
                    yield int(folder.name), value
