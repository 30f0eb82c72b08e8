"""`Judging`: the evaluations and profiles of one run. Each is made once, recorded, and charged to the
budget."""

import json
import time
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

from kernelblaster.judge.protocol import Judge
from kernelblaster.judge.sweep import baked_variants
from kernelblaster.records import Candidate, Evaluation, Floor, Profile, Task, Timing
from kernelblaster.records.outcome import CORRECT
from kernelblaster.records.profile import Depth
from kernelblaster.sessions.budget import SearchBudget
from kernelblaster.sessions.settings import Search
from kernelblaster.store.run import Run


class Judging:
    """Has candidates for `task` judged and profiled by `judge` in one run, each only once. `evaluations` has
    the results so far by the candidate's `code`, in the order of judging; `budget` counts them. When a run is
    continued, recorded results are used instead of judging again. `check` is called before new candidates are
    judged and after each result; it may raise to stop the search."""

    def __init__(
        self, task: Task, judge: Judge, run: Run, search: Search, check: Callable[[], None] = lambda: None
    ) -> None:
        self._task = task
        self._judge = judge
        self._run = run
        self._near_floor = search.near_floor
        self._ranked = search.ranked
        self._check = check
        self.budget = SearchBudget(search)
        self.evaluations: dict[str, Evaluation] = {}
        self._candidates: dict[str, Candidate] = {}
        self._recorded = {event.key: event.data for event in run.events if event.kind == "evaluation"}
        self._estimated = {e.key: e.data["us"] for e in run.events if e.kind == "estimate"}
        self._profiled = {event.key: event.data for event in run.events if event.kind == "profile"}
        before = [event.data["seconds"] for event in run.events if event.kind == "batch"]
        self._begun = time.monotonic() - max(before, default=0.0)

    @cached_property
    def floor(self) -> Floor:
        """The least work that any implementation of the task must do: bytes of memory traffic and
        operations."""
        return self._judge.prepare(self._task)[1]

    @property
    def floor_bytes(self) -> int:
        """The least memory traffic, in bytes, of any implementation of the task."""
        return self.floor.bytes

    def source(self, code: str) -> str | None:
        """Returns the source of the candidate with this `code`; None if it was not judged in this run."""
        candidate = self._candidates.get(code)
        return candidate.source if candidate else None

    @property
    def modelled(self) -> bool:
        """True if times come from a model of the GPU, False if they are measured."""
        return self._judge.device.modelled

    @property
    def seconds(self) -> float:
        """Seconds since the search began. If it was stopped and continued, the time between does not
        count."""
        return time.monotonic() - self._begun

    @property
    def timings(self) -> list[Timing]:
        """The timings of all candidates that were timed, in the order of judging."""
        return [e.timing for e in self.evaluations.values() if e.timing is not None]

    def judge(self, candidate: Candidate) -> Evaluation:
        """Returns the evaluation of one candidate. If this run has not judged it before, it is judged now and
        charged to the budget, even if the budget is spent."""
        if candidate.code not in self.evaluations:
            self._judge_all([candidate])
        return self.evaluations[candidate.code]

    def judge_within_budget(
        self, key: str, candidates: Sequence[Candidate], trials: Sequence[dict[str, Any]] = ()
    ) -> list[Evaluation | None]:
        """Judges the candidates together and returns their evaluations in the same order. If the budget does
        not suffice for all, some are not judged, and have None. Those are the last ones, or, if times are
        measured and `Search.ranked` is set, those that the emulator's timing model finds slowest. Candidates
        with equal code are judged once. `key` names the batch in the run's record and must be unique in the
        run. `trials` are JSON data that describe the candidates, recorded for people who watch."""
        wanted = {c.code: c for c in candidates if c.code not in self.evaluations}
        if wanted:
            seconds = self.seconds
            granted = self._run.once(
                "batch",
                key,
                lambda: {
                    "granted": self.budget.afford(len(wanted), seconds),
                    "seconds": seconds,
                    "trials": list(trials),
                },
                lasting=False,
            )
            allowed = self._most_promising(list(wanted.values()), granted["granted"])
            self.budget.spent = self.budget.spent or len(allowed) < len(wanted)
            self._judge_all(allowed)
        return [self._named(candidate) for candidate in candidates]

    def profile(self, candidates: Sequence[Candidate], depth: Depth = "usual") -> list[Profile | None]:
        """Returns profiles of these candidates, in their order; None where profiling failed. The candidates
        must have been judged and be correct. All profiles that are missing are made together. `depth` says
        how much is collected: `quick` (what performance states are named from), `usual` (with the profiler's
        advice) or `detailed` (counts by instruction). A candidate is profiled once: a later call with another
        `depth` returns the first profile."""
        wanted = [c for c in candidates if self.evaluations[c.code].profile is None]
        new = [c for c in wanted if c.code not in self._profiled]
        profiles = self._judge.profile(self._task, new, depth=depth) if new else []
        for candidate, profile in zip(new, profiles, strict=True):
            data = {"profile": profile.model_dump(mode="json") if isinstance(profile, Profile) else None}
            self._profiled[candidate.code] = self._run.once("profile", candidate.code, lambda d=data: d)  # type: ignore[misc]
        for candidate in wanted:
            kept = self._profiled[candidate.code]["profile"]
            known = {"profile": kept and Profile.model_validate(kept)}
            self.evaluations[candidate.code] = self.evaluations[candidate.code].model_copy(update=known)
        return [self.evaluations[c.code].profile for c in candidates]

    def fastest(self, candidates: Sequence[Candidate]) -> Candidate:
        """Returns the one of `candidates` with the shortest time by the emulator's timing model, or the first
        one if no time can be modelled. Modelled times are recorded, and do not count as evaluations."""
        if len(candidates) == 1:
            return candidates[0]
        self._estimate(candidates)
        known = [c for c in candidates if self._estimated[c.code] is not None]
        return min(known, key=lambda c: self._estimated[c.code] or 0.0, default=candidates[0])

    def modelled_us(self, candidates: Sequence[Candidate]) -> list[float | None]:
        """Returns the time of each of `candidates` in us, by the emulator's timing model; None where it
        cannot be modelled. Modelled times are recorded, and do not count as evaluations."""
        self._estimate(candidates)
        return [self._estimated[candidate.code] for candidate in candidates]

    def tuned(self, candidate: Candidate, most: int) -> Candidate:
        """Tries values for the tunable constants that a candidate declares: up to `most` combinations, each
        timed by the emulator's timing model. Returns the candidate with the fastest combination written into
        its source. Returns it unchanged if it declares no such constants, or `most` is at most 1."""
        texts = baked_variants(candidate.source, most) if most > 1 else [candidate.source]
        return self.fastest([candidate.model_copy(update={"source": text}) for text in texts])

    def near_floor(self, evaluation: Evaluation) -> bool:
        """True if hardly anything is left to gain: the time of the candidate with this `evaluation` is at
        most `Search.near_floor` (such as 1.05) times the floor, the least time that the GPU's bandwidth and
        peak rates allow. False if the candidate was not timed."""
        timing = evaluation.timing
        return timing is not None and timing.candidate_us <= self._near_floor * timing.floor_us

    @property
    def first_correct(self) -> Evaluation:
        """The evaluation of the first candidate that was found correct. Raises StopIteration if there is
        none."""
        return next(e for e in self.evaluations.values() if isinstance(e.outcome, CORRECT))

    def ranked(self) -> list[tuple[Candidate, Evaluation]]:
        """Returns (candidate, evaluation) of every correct candidate so far, the one with the largest speedup
        first."""
        correct = [
            (self._candidates[code], evaluation, evaluation.outcome.speedup.estimate)
            for code, evaluation in self.evaluations.items()
            if isinstance(evaluation.outcome, CORRECT)
        ]
        return [(c, e) for c, e, _ in sorted(correct, key=lambda one: -one[2])]

    def _estimate(self, candidates: Sequence[Candidate]) -> None:
        """Have the times of these candidates modelled, unless they were before; `_estimated` has them
        afterwards, and the run's record."""
        new = [c for c in candidates if c.code not in self._estimated]
        estimates = self._judge.estimate(self._task, new) if new else []
        for candidate, us in zip(new, estimates, strict=True):
            kept = self._run.once("estimate", candidate.code, lambda us=us: {"us": us})  # type: ignore[misc]
            self._estimated[candidate.code] = kept["us"]

    def _most_promising(self, candidates: list[Candidate], count: int) -> list[Candidate]:
        """Returns `count` of the candidates. If times are measured, ranking is on and `count` is less than
        all, these are the ones with the shortest modelled times, the shortest first; else they are the first
        ones. A candidate that cannot be modelled keeps its place in the order."""
        if not 0 < count < len(candidates) or self.modelled or not self._ranked:
            return candidates[:count]
        pairs = list(zip(self.modelled_us(candidates), candidates, strict=True))
        known = sorted(((us, place) for place, (us, _) in enumerate(pairs) if us is not None))
        ranked = iter(candidates[place] for _, place in known)
        return [candidate if us is None else next(ranked) for us, candidate in pairs][:count]

    def _judge_all(self, candidates: Sequence[Candidate]) -> None:
        """Judge candidates and fill in `evaluations`. Results are recorded as they arrive, and charged to the
        budget in the order of the candidates; those that were recorded before, in a run that is continued,
        are charged too, so that it spends the same."""
        new = {c.digest: c for c in candidates if c.code not in self._recorded}
        if new:
            self._check()
        for judged in self._judge.evaluate_many([(self._task, candidate) for candidate in new.values()]):
            candidate = new[judged.candidate]
            evaluation = self._confirm_best(candidate, judged)
            source = self._run.files.put(candidate.source)
            data = {"source": source, "evaluation": json.loads(evaluation.model_dump_json())}
            self._recorded[candidate.code] = self._run.once("evaluation", candidate.code, lambda d=data: d)  # type: ignore[misc]
            self._check()
        for candidate in candidates:
            self._candidates[candidate.code] = candidate
            evaluation = Evaluation.model_validate(self._recorded[candidate.code]["evaluation"])
            self.evaluations[candidate.code] = evaluation
            self.budget.spend(evaluation)

    def _confirm_best(self, candidate: Candidate, evaluation: Evaluation) -> Evaluation:
        """The evaluation to record. A candidate with a larger speedup than all before is also checked for
        races on the PTX machine (the emulator: a GPU may hide a race for long), and run at large sizes if its
        time is modelled; either may turn its outcome into a failure. One whose modelled time is no better
        than the baseline's is not checked. (Speedups are compared, not times: the GPU may be another one than
        before.)"""
        timing = evaluation.timing
        if timing is None or timing.speedup.estimate <= self._best_speedup:
            return evaluation
        if timing.modelled and timing.speedup.estimate <= 1:
            return evaluation
        confirmed = self._judge.confirmed(self._task, candidate, evaluation)
        if isinstance(confirmed.outcome, CORRECT):
            self._best_speedup = timing.speedup.estimate
        return confirmed

    @cached_property
    def _best_speedup(self) -> float:
        """The largest speedup of a correct candidate recorded when this is first read (0 if there is
        none); `_confirm_best` keeps it up to date."""
        recorded = (Evaluation.model_validate(data["evaluation"]) for data in self._recorded.values())
        correct = (e.outcome for e in recorded if isinstance(e.outcome, CORRECT))
        return max((outcome.speedup.estimate for outcome in correct), default=0.0)

    def _named(self, candidate: Candidate) -> Evaluation | None:
        """Returns the evaluation of the candidate's code, with this candidate's digest in it; another
        candidate with the same code may have been judged. None if that code was not judged."""
        known = self.evaluations.get(candidate.code)
        return known and known.model_copy(update={"candidate": candidate.digest})
