"""A time limit on work of this thread that other programs on the machine do not shorten."""

import time

PATIENCE = 20  # times as long by the clock, then it ends in any case: who waits uses no processor


class WorkLimit:
    """`seconds` of processor time of the thread that makes it, from now on, and at most 20 times as many by
    the clock (PATIENCE). What is tried within it is the same on a busy machine as on a quiet one."""

    def __init__(self, seconds: float) -> None:
        self._processor_end = time.thread_time() + seconds
        self._clock_end = time.monotonic() + PATIENCE * seconds
        self.met = False

    @property
    def reached(self) -> bool:
        """Whether the time is over. Once asked for after that, `met` is true: something was cut short."""
        self.met = self.met or time.thread_time() > self._processor_end or time.monotonic() > self._clock_end
        return self.met
