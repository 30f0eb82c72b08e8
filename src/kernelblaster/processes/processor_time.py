"""Time limits in processor time, so that other programs on a busy machine do not shorten them."""

import os
import time
from pathlib import Path

BUSY = 20  # times as long by the clock, then a limit ends in any case: who waits uses no processor
TICKS = os.sysconf("SC_CLK_TCK")


class WorkLimit:
    """A time limit that begins when this object is made. It is over when the thread that made it has used
    `seconds` of processor time, or after 20 times as long by the clock (BUSY). So the same work is done
    within it on a busy machine as on a quiet one."""

    def __init__(self, seconds: float) -> None:
        self._processor_end = time.thread_time() + seconds
        self._clock_end = time.monotonic() + BUSY * seconds
        self.met = False

    @property
    def reached(self) -> bool:
        """True once the limit is reached. The attribute `met` is True from the first time that this property
        was read as True, which means that work was cut short because of the limit."""
        self.met = self.met or time.thread_time() > self._processor_end or time.monotonic() > self._clock_end
        return self.met


def processor_seconds(pid: int) -> float:
    """Processor time in seconds that all threads of the process `pid` have used so far; infinite if there is
    no such process, or the system does not tell."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS
    except (OSError, ValueError, IndexError):
        return float("inf")
