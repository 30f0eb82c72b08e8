"""How long the GPU is kept busy before PyTorch's work is timed. If it reached that work before the host had
issued all of it, it would wait for the host, and the time would be the host's."""

SLACK, SPARE_US = 1.5, 30.0  # how much longer than the host took last time: the factor, and microseconds
MOST_US = 20_000.0
SLOWER = 0.9  # by this factor it gets shorter from call to call, where the host needs less
# Work is taken to wait for the GPU itself if the host takes longer to issue it by more than half (FOLLOWS) of
# what the lead grew by, once that is TELLING_US; less may be a host's noise.
FOLLOWS, TELLING_US = 0.5, 500.0


class Lead:
    """The time in us, `us`, for which the GPU is kept busy before timed work, adapted to how long the host
    takes to issue that work. `flush_us` is how long emptying the cache takes, which comes after it and hides
    as much."""

    def __init__(self, flush_us: float) -> None:
        self.us = 0.0
        self._flush_us = flush_us
        self._first: tuple[float, float] | None = None  # lead and time to issue when first it was late

    def begin(self) -> None:
        """To be called before each work that is timed: an earlier one that failed says nothing about it."""
        self._first = None

    def late(self, issued_us: float, *, in_time: bool) -> bool:
        """Told how long the host took to issue the work just timed, and whether all of it was issued
        `in_time`, before the GPU reached it. Adapts the lead, and returns whether the work is to be timed
        again. It is not where the work itself seems to wait for the GPU, which no lead can hide, or where the
        lead is MOST_US already."""
        wanted = min(MOST_US, max(0.0, SLACK * issued_us + SPARE_US - self._flush_us))
        if in_time:
            self.us = max(wanted, SLOWER * self.us)
            return False
        self._first = self._first or (self.us, issued_us)
        lead, issued = self._first
        longer_us = self.us - lead
        if longer_us >= TELLING_US and issued_us - issued > FOLLOWS * longer_us:
            self.us = lead
            return False
        if self.us >= MOST_US:
            return False
        self.us = min(MOST_US, max(wanted, 2 * self.us, SPARE_US))
        return True
