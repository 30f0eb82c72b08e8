"""Profiles candidates once they are known to be correct. Candidates of several tasks may share one start of
the profiler."""

from collections.abc import Callable, Sequence

from kernelblaster.judge.clock import Clock
from kernelblaster.judge.compile import Binary
from kernelblaster.judge.options import Progress, silent
from kernelblaster.judge.prepare import Prepared
from kernelblaster.judge.under_test import Checked
from kernelblaster.records import Candidate, Outcome, Profile, Task, Verification
from kernelblaster.records.profile import Depth

Check = Callable[[Prepared, Binary], Checked]


class VerifiedProfiles:
    """Makes profiles with `clock`, but only of candidates that are correct, since the profile of an incorrect
    one would mislead. `check` is called to verify a compiled candidate, unless its code was found correct
    before (`remember`). `progress` is called with the name of each stage."""

    def __init__(self, clock: Clock, check: Check, progress: Progress = silent) -> None:
        self._clock = clock
        self._check = check
        self._progress = progress
        self._correct: set[tuple[str, str]] = set()

    def remember(self, task: Task, candidate: Candidate) -> None:
        """Marks the candidate as correct for this task, so that `profile` does not verify it again. Kept in
        memory only."""
        self._correct.add((task.digest, candidate.code))

    def profile(
        self,
        wanted: Sequence[tuple[Prepared, Sequence[tuple[Candidate, Binary | Outcome]]]],
        depth: Depth,
    ) -> list[list[Profile | Outcome]]:
        """Profiles candidates at the primary workload (the sizes that are timed). `wanted` has pairs: a task
        with what was prepared for it (`Prepared`), and its candidates, each with the result of compiling it
        (the compiled candidate, or the outcome if it did not compile). Returns for each pair a list with the
        profile of each candidate, or the candidate's outcome if it did not compile or fails verification.
        `depth` says how much is collected: "quick" (what performance states are named from), "usual" (also
        the profiler's advice) or "detailed" (also counts by instruction)."""
        checked = [
            (prepared, [self._correct_or_outcome(prepared, *candidate) for candidate in candidates])
            for prepared, candidates in wanted
        ]
        self._progress("profiling")
        correct = [
            (prepared, [one for one in found if isinstance(one, Binary)]) for prepared, found in checked
        ]
        profiles = [iter(one) for one in self._clock.profiles(correct, depth=depth)]
        return [
            [next(mine).shortened() if isinstance(one, Binary) else one for one in found]
            for (_, found), mine in zip(checked, profiles, strict=True)
        ]

    def _correct_or_outcome(
        self, prepared: Prepared, candidate: Candidate, binary: Binary | Outcome
    ) -> Binary | Outcome:
        """Returns `binary` itself if the candidate is correct; it is verified now unless it was before.
        Otherwise returns the outcome that says what is wrong. If `binary` is an outcome already, because
        compiling failed, that is returned."""
        if not isinstance(binary, Binary) or (prepared.task.digest, candidate.code) in self._correct:
            return binary
        outcome = self._check(prepared, binary).outcome
        return binary if isinstance(outcome, Verification) else outcome
