"""`verify`: judges the best candidate of a recorded run again, compiled anew and on new inputs, and says
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
    """The result of judging a run's best candidate again. `then` is the recorded evaluation, `now` the new
    one. `correct`: the candidate is correct now. `speedup_holds`: the confidence intervals of both speedups,
    widened by the timer's resolution, overlap; None if the device is another one or one of the verdicts is a
    failure."""

    run: str
    then: Evaluation
    now: Evaluation
    correct: bool
    speedup_holds: bool | None

    @property
    def holds(self) -> bool:
        """True if judging again confirms the recorded verdict: the candidate is still correct, and its new
        speedup does not contradict the recorded one."""
        return self.correct and self.speedup_holds is not False


def verify(run: Run, judge: DeviceJudge) -> Verified:
    """Judges the best candidate of a run again: compiled without the cache, verified on new inputs, timed
    anew. Returns the recorded and the new evaluation, and whether they agree. The run itself is not
    changed."""
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
    """True if the confidence intervals of the speedups `one` and `other` overlap after each was widened by
    the timer's resolution of 1 % (RESOLUTION) at both ends."""
    return max(log(one.low), log(other.low)) <= min(log(one.high), log(other.high)) + 2 * RESOLUTION
