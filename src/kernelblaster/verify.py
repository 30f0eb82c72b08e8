"""`verify` judges the best candidate of a recorded run again, without the cache and on new inputs, and says
whether the recorded verdict holds."""

from math import log

from kernelblaster import cache
from kernelblaster.judge.judge import DeviceJudge
from kernelblaster.judge.timing import RESOLUTION
from kernelblaster.records import Evaluation
from kernelblaster.records.outcome import CORRECT, Speedup
from kernelblaster.records.record import Record
from kernelblaster.store.history import History
from kernelblaster.store.run import Run
from kernelblaster.store.subject import task_of


class Verified(Record):
    """A run's best candidate judged again: its recorded evaluation (`then`) and the new one (`now`).
    `correct`: it is still correct. `speedup_holds`: the two confidence intervals, widened by the timer's
    resolution, overlap; None if they cannot be compared, because the device is another or the candidate is
    not correct."""

    run: str
    then: Evaluation
    now: Evaluation
    correct: bool
    speedup_holds: bool | None

    @property
    def holds(self) -> bool:
        """Whether judging again confirms the recorded verdict: the candidate is still correct, and its new
        speedup does not contradict the recorded one."""
        return self.correct and self.speedup_holds is not False


def verify(run: Run, judge: DeviceJudge) -> Verified:
    """Judge the best candidate of a run again: compiled without the cache, verified on new inputs, timed
    again. The run itself is not changed."""
    candidate, then = History(run).best_candidate()
    task = task_of(run)
    with cache.afresh("candidate"):
        now = judge.evaluate(task, candidate)
    correct = isinstance(now.outcome, CORRECT)
    holds = None
    if isinstance(then.outcome, CORRECT) and isinstance(now.outcome, CORRECT) and then.device == now.device:
        holds = speedups_overlap(then.outcome.speedup, now.outcome.speedup)
    return Verified(run=run.name, then=then, now=now, correct=correct, speedup_holds=holds)


def speedups_overlap(one: Speedup, other: Speedup) -> bool:
    """Whether two confidence intervals of speedups, each widened by the timer's resolution of 1 %
    (RESOLUTION), overlap."""
    return max(log(one.low), log(other.low)) <= min(log(one.high), log(other.high)) + 2 * RESOLUTION
