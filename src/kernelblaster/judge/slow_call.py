"""Finds out early that a candidate is hopelessly slow: after the small workloads, one call at the primary
workload (the sizes that are timed) is timed by its launches and held against the baseline. So what judging
costs is bounded by the baseline's time, not by the candidate's."""

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
    """One call of a hopelessly slow candidate at the primary workload (the sizes that are timed), and the
    baseline's time for the same in us. `work` is what was launched, each with its duration."""

    baseline_us: float
    candidate_us: float
    work: tuple[LaunchedWork, ...]

    @property
    def words(self) -> str:
        """Why the candidate was judged no further, as a sentence without its full stop."""
        return (
            f"hopelessly slow: a call takes {self.candidate_us / 1e3:.0f} ms, the baseline "
            f"{self.baseline_us / 1e3:.2g} ms; it is right in the cheap cases and in that call, and was "
            "judged no further"
        )

    @property
    def outcome(self) -> Slower:
        """The verdict: correct as far as it was run, and slower by a speedup that one call tells."""
        ratio = self.baseline_us / self.candidate_us
        speedup = Speedup(estimate=ratio, low=ratio / UNSURE, high=ratio * UNSURE, confidence=None)
        return Slower(speedup=speedup, reason=self.words)


def slow_call(baseline_us: float, work: tuple[LaunchedWork, ...]) -> SlowCall | None:
    """The call that launched `work`, if it shows that its candidate is hopelessly slow against a baseline
    that takes `baseline_us`; else None. Launches without a duration count as none."""
    candidate_us = sum(one.duration_us or 0.0 for one in work)
    hopeless = candidate_us > max(CHEAP_US, TIMES * baseline_us)
    return SlowCall(baseline_us, candidate_us, work) if hopeless else None


def limit_s(baseline_us: float) -> float:
    """Seconds after which a call at the primary workload is ended, if the baseline takes `baseline_us`: never
    more than the usual limit of a call."""
    return min(settings().call_limit_s, max(LEAST_LIMIT_S, LIMIT_TIMES * baseline_us / 1e6))
