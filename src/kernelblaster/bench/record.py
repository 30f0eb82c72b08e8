"""What a bench has recorded: its plan, and the result and measurements of each task so far."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kernelblaster.bench.jobs import DIED, INITIAL, Job, JobResult, Measured, Setup, result_of
from kernelblaster.bench.metrics import against_best
from kernelblaster.bench.suite import Entry
from kernelblaster.knowledge.initial import SEED
from kernelblaster.records.evaluation import BaselineName
from kernelblaster.records.record import Record
from kernelblaster.sessions.ranking import Ranking
from kernelblaster.store.events import RunEvent

ARM = "bench"
KIND = "plan"
KNOWLEDGE = "knowledge.db"  # in the folder of a bench
BEST = "best"  # names the fastest baseline of each task
BUSY_WITH = {
    "evaluate": "verdicts",
    "profile": "profiles",
    "prepare": "preparing tasks",
    "confirm": "order checks",
}


class BenchPlan(Record):
    """What a bench does: it searches every task of `entries` with every seed, as `setup` says. `start` is the
    knowledge base that it begins with: "seed" for the one that is shipped, "empty", or the path or URL of
    one, which is copied. After the searches, the best candidates are measured against each of `baselines`,
    eager PyTorch first. `suites` are the names that the user gave."""

    suites: tuple[str, ...]
    entries: tuple[Entry, ...]
    setup: Setup
    seeds: tuple[int, ...] = (0,)
    baselines: tuple[BaselineName, ...] = ("eager",)
    start: str = SEED

    @property
    def jobs(self) -> list[Job]:
        """One job (a search of a task) for each seed and task."""
        return [
            Job(arm=ARM, entry=entry, seed=seed, setup=self.setup)
            for seed in self.seeds
            for entry in self.entries
        ]


@dataclass(frozen=True)
class Row:
    """One planned search of a bench, as a line for reports: one task with one seed. `result` is the result of
    that search. `measured` has the final measurements of its best candidate by the name of the baseline,
    where "initial" is the search's first candidate; empty if nothing was measured yet."""

    result: JobResult
    measured: dict[str, Measured]

    @property
    def speedups(self) -> dict[str, float | None]:
        """The final speedups of the best candidate, by the name of the baseline. "initial" (the search's
        first candidate) and baselines that do not run are not among them. None for a baseline against which
        the candidate was found not correct."""
        return {
            name: one.speedup.estimate if one.speedup else None
            for name, one in self.measured.items()
            if not one.absent and name != INITIAL
        }

    def speedup(self, baseline: str) -> float | None:
        """Returns the speedup over the baseline with this name; for "best", that over the fastest baseline of
        this task. None if the search has no valid candidate, the baseline does not run, or nothing was
        measured."""
        if self.result.status != "valid":
            return None
        if baseline == BEST:
            return against_best(self.speedups)
        one = self.measured.get(baseline)
        return one.speedup.estimate if one and one.speedup else None

    def faster(self, baseline: str) -> bool:
        """True if the judge accepted the best candidate as faster than the baseline with this name, beyond
        the uncertainty of the measurement; for "best", faster than the fastest baseline of this task."""
        one = self.beside_best if baseline == BEST else self.measured.get(baseline)
        return self.result.status == "valid" and one is not None and one.outcome == "Accepted"

    @property
    def died(self) -> bool:
        """Whether code of the task crashed the process in which it ran, in the search or the measurement."""
        return self.result.status == "died" or any(one.outcome == DIED for one in self.measured.values())

    @property
    def beside_best(self) -> Measured | None:
        """The measurement of the best candidate against the fastest baseline, which is the one with the
        smallest speedup; "initial" does not count as a baseline. None if the candidate was measured against
        none."""
        known = [one for name, one in self.measured.items() if name != INITIAL and one.speedup]
        return min(known, key=lambda one: one.speedup.estimate, default=None) if known else None  # type: ignore[union-attr]


@dataclass(frozen=True)
class Pace:
    """Throughput of a bench's searches. `evaluations` candidates were judged in `seconds` of wall-clock time.
    `busy` has for each kind of work ("evaluate", "profile", ...) the fraction of the time in which the device
    did it; of several devices, the mean. `ranking` says how often the emulator's timing model put candidates
    in the order that measurement then showed."""

    evaluations: int
    seconds: float
    busy: Mapping[str, float]
    ranking: Ranking = field(default_factory=Ranking)

    @property
    def a_minute(self) -> float | None:
        """Candidates judged per minute; None if nothing was searched."""
        return 60 * self.evaluations / self.seconds if self.seconds else None

    def __str__(self) -> str:
        """The throughput as a sentence; empty if nothing was searched."""
        if not self.seconds:
            return ""
        words = f"{self.evaluations} candidates judged in {self.seconds:.0f} s: {self.a_minute:.0f} a minute"
        shares = [f"{BUSY_WITH.get(kind, kind)} {share:.0%}" for kind, share in sorted(self.busy.items())]
        parts = [words, *([f"the device: {', '.join(shares)}"] if shares else []), str(self.ranking)]
        return f"{'; '.join(part for part in parts if part)}."


class BenchRecord:
    """What a bench has recorded: results, measurements and throughput, read from its log of `events`. It is
    not updated when more is recorded. `plan` is what the bench was to do."""

    def __init__(self, plan: BenchPlan, events: Sequence[RunEvent]) -> None:
        self.plan = plan
        self._events = events

    @property
    def done(self) -> set[str]:
        """The keys of the searches that have ended. A key is a text made of arm ("bench", or the way to
        search in an ablation), task and seed."""
        return set(self.results())

    def rows(self) -> list[Row]:
        """One row for each planned task and seed, in the order of the plan. Where there is no result yet, the
        row's result has the status "unfinished"."""
        results, measured = self.results(), self.measurements()
        return [
            _row(results.get(job.key) or result_of(job, "unfinished"), measured.get(job.key, {}))
            for job in self.plan.jobs
        ]

    @property
    def device(self) -> str:
        """Name of the device, from a recorded result; until there is one, the GPU that was asked for, or the
        kind of device ("cuda", "emulated")."""
        known = (result.device for result in self.results().values() if result.device)
        return next(known, self.plan.setup.gpu or self.plan.setup.device)

    @property
    def pace(self) -> Pace:
        """Throughput over all searches; pauses between commands do not count. For a process that was killed,
        the time up to its last recorded result is counted. The field `busy` of the result (what the device
        did) covers only processes that ended by themselves."""
        busy: Counter[str] = Counter()
        seconds = known = mark = 0.0
        for event in self._events:
            after = event.at if event.after is None else event.after  # earlier versions had one clock
            if event.kind == "result":
                seconds += max(0.0, after - mark)
            if event.kind in ("searching", "result"):
                mark = after
            if event.kind == "pace":
                busy.update(event.data["busy"])
                known += event.data["seconds"]
        results = self.results().values()
        judged = sum(result.spent.evaluations for result in results)
        ranking = Ranking(*(sum(result.ranked[place] for result in results) for place in (0, 1)))
        return Pace(judged, seconds, {kind: spent / known for kind, spent in busy.items() if known}, ranking)

    def results(self) -> dict[str, JobResult]:
        """The recorded results, by the key of their job: a text made of arm ("bench", or the way to search in
        an ablation), task and seed."""
        return {e.key: JobResult.model_validate(e.data) for e in self._events if e.kind == "result"}

    def measurements(self) -> dict[str, dict[str, Measured]]:
        """The recorded final measurements of best candidates, by the key of their job (a text made of arm,
        task and seed), then by the name of the baseline. Jobs that were not yet measured against every
        baseline are left out."""
        by_job: dict[str, dict[str, Measured]] = {}
        for event in self._events:
            if event.kind == "measured":
                one = Measured.model_validate(event.data)
                by_job.setdefault(one.job, {})[one.baseline] = one
        return {
            job: by_baseline
            for job, by_baseline in by_job.items()
            if {*self.plan.baselines, INITIAL} <= by_baseline.keys()
        }


def _row(result: JobResult, measured: dict[str, Measured]) -> Row:
    """A row for the reports: a result with its final measurements by baseline. A candidate that is not
    correct in one of them makes the result `invalid`; a valid result without measurements is `unfinished`."""
    wrong = [one for one in measured.values() if one.speedup is None and not one.absent]
    if wrong:
        reason = f"judged afresh: {wrong[0].outcome}: {wrong[0].reason}"
        result = result.model_copy(update={"status": "invalid", "reason": reason})
    elif result.status == "valid" and not measured:
        result = result.model_copy(update={"status": "unfinished", "reason": "searched, not measured yet"})
    return Row(result, measured)
