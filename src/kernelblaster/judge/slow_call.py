"""Ends the judging of hopelessly slow candidates early. After the verification cases at small workloads, one
call at the primary workload (the sizes that are timed) is made, and the sum of its kernels' times is compared
with the baseline's time. So the time that judging takes is bounded by the baseline's time, not by the
candidate's."""

from dataclasses import dataclass

from kernelblaster.devices.device import LaunchedWork
from kernelblaster.records import Slower
from kernelblaster.records.outcome import Speedup
from kernelblaster.settings import settings

TIMES = 10.0  # times the baseline's time: what takes longer is hopeless ...
CHEAP_US = 50_000.0  # ... if a call takes longer than this, too: shorter ones cost little
LEAST_LIMIT_S, LIMIT_TIMES = 5.0, 10_000.0  # the limit of that call: at least, and in baseline times
UNSURE = 1.5  # by which one call may be off, either way
LARGE_SHARE = 0.25  # of the primary workload's activations: workloads from there on are costly


@dataclass(frozen=True)
class SlowCall:
    """The one timed call of a candidate that was found to be hopelessly slow. `candidate_us` and
    `baseline_us` are its time and the baseline's in us, at the primary workload (the sizes that are timed).
    `work` are its kernels, copies and fills, each with its duration."""

    baseline_us: float
    candidate_us: float
    work: tuple[LaunchedWork, ...]

    @property
    def words(self) -> str:
        """Says why the candidate was not judged any further, as a sentence without a full stop, with both
        times in ms."""
        return (
            f"hopelessly slow: a call takes {self.candidate_us / 1e3:.0f} ms, the baseline "
            f"{self.baseline_us / 1e3:.2g} ms; it is right in the cheap cases and in that call, and was "
            "judged no further"
        )

    @property
    def outcome(self) -> Slower:
        """The verdict `Slower`: the candidate was correct as far as it was run. Its speedup is that of the
        one timed call, with an interval from 1/1.5 to 1.5 times that (UNSURE)."""
        ratio = self.baseline_us / self.candidate_us
        speedup = Speedup(estimate=ratio, low=ratio / UNSURE, high=ratio * UNSURE, confidence=None)
        return Slower(speedup=speedup, reason=self.words)


def slow_call(baseline_us: float, work: tuple[LaunchedWork, ...]) -> SlowCall | None:
    """Decides by one call whether a candidate is hopelessly slow: its kernels, copies and fills (`work`) took
    more than 50 ms (CHEAP_US) together, and more than ten times (TIMES) as long as the baseline
    (`baseline_us`, in us). Returns the call as a SlowCall if so, else None. A kernel without a duration
    counts as 0 us."""
    candidate_us = sum(one.duration_us or 0.0 for one in work)
    hopeless = candidate_us > max(CHEAP_US, TIMES * baseline_us)
    return SlowCall(baseline_us, candidate_us, work) if hopeless else None


def limit_s(baseline_us: float) -> float:
    """The time limit, in seconds, of the call by which `slow_call` recognizes hopelessly slow candidates:
    10,000 times `baseline_us`, the baseline's time in us. At least 5 s, but never more than the limit of any
    call (`call_limit_s` of the settings, 10 s by default)."""
    return min(settings().call_limit_s, max(LEAST_LIMIT_S, LIMIT_TIMES * baseline_us / 1e6))
