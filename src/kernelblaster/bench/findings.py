"""Results of an ablation study: statistics of each arm (a way to search), and for each claim of the MAIC-RL
paper whether the results agree with it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from kernelblaster.bench.ablation import Ablation
from kernelblaster.bench.jobs import JobResult
from kernelblaster.bench.metrics import (
    Interval,
    best_so_far,
    evaluations_until,
    geometric_mean_interval,
    quartiles,
)
from kernelblaster.bench.studies import LITTLE, Arm, Claim, Measure, Study

REACHED = 0.95
MOST_TASKS = 0.8
LEAST_TASKS = 6  # a bootstrap over fewer says little
WORDS: dict[Measure, str] = {
    "best": "speed of the best",
    "evaluations": "evaluations until 95% of the best",
    "tokens": "tokens",
}
Verdict = Literal["agrees", "contradicts", "undecided", "no claim"]


@dataclass(frozen=True)
class ArmFindings:
    """The statistics of one arm (way to search) of a study, called `name`, over its `searches` searches of
    the tasks that all arms have searched. A search is compared with the goal of its task: the largest speedup
    that any search of the task reached, in any arm. None: there is no data.

    `best`: geometric mean of the best speedups over the baseline. `gain`: quartiles of the speedups over the
    search's first candidate. `evaluations`: how many candidates were judged until 95 % of the goal was
    reached. A search that never got there counts with its whole budget; `missed` is the number of such
    searches. `tokens`: tokens of a search, None unless every search used some. `curve`: for 1, 2, ...
    evaluations, the best speedup so far as a fraction of the goal.
    """

    name: str
    searches: int
    best: Interval | None
    gain: tuple[float, float, float] | None
    evaluations: Interval | None
    missed: int
    tokens: Interval | None
    curve: tuple[Interval, ...]


@dataclass(frozen=True)
class StudyAnswer:
    """What the results say about one claim of the MAIC-RL paper, which compares two arms (ways to search) in
    one measure. `ratio` is the first arm's value divided by the second's, with a confidence interval; None if
    there is nothing to compare. `verdict` says whether the ratio agrees with the claim (see `verdict_on`),
    `sentence` says both in words."""

    claim: Claim
    ratio: Interval | None
    verdict: Verdict
    sentence: str


@dataclass(frozen=True)
class StudyFindings:
    """Results of one study so far. `arms` has the statistics of each way to search that the study compares,
    `answers` what they say about each claim of the MAIC-RL paper. `budget` is the most candidates that a
    search may judge.

    Only some seeds and tasks count. `planned` is the number of seeds of the plan, `seeds` the number of those
    that count. Seeds with few searched tasks are left out, as many as necessary for the tasks that were
    searched with all other seeds to be at least 80 % of those searched with the most complete seed. `tasks`
    is the number of tasks that have a valid result in every arm with every seed that counts; `left_out` has
    the other tasks by name, with the reason.
    """

    study: Study
    tasks: int
    seeds: int
    planned: int
    budget: int
    arms: list[ArmFindings]
    answers: list[StudyAnswer]
    left_out: dict[str, str]


Key = tuple[str, str, int]
"""Arm, task and seed."""


def summarize_study(ablation: Ablation, study: Study) -> StudyFindings:
    """Returns the results so far of `study`, one of the studies of the `ablation`: statistics of each of its
    arms (ways to search), what they say about each claim of the MAIC-RL paper, and which tasks were left out
    and why. Only tasks count that have a valid result in every arm."""
    plan, results = ablation.plan, ablation.results
    by_key: dict[Key, JobResult] = {}
    left_out: dict[str, str] = {}
    seeds = _searched_seeds(ablation, study, results)
    for entry in plan.tasks_of(study):
        for arm in study.arms:
            for seed in seeds:
                result = results.get(ablation.job(study, arm, entry, seed).key)
                if result is None or result.status != "valid":
                    left_out[entry.name] = (
                        "not searched yet" if result is None else f"{result.status}: {result.reason}"
                    )
                else:
                    by_key[arm.name, entry.name, seed] = result
    tasks = sorted({task for _, task, _ in by_key} - left_out.keys())
    budgets = {arm.name: arm.search(plan.setup.search).evaluations for arm in study.arms}
    searches = _Searches(by_key, tasks, seeds, budgets)
    return StudyFindings(
        study=study,
        tasks=len(tasks),
        seeds=len(seeds),
        planned=len(plan.seeds),
        budget=max(budgets.values()),
        arms=[searches.arm(arm) for arm in study.arms],
        answers=[_answer(claim, searches) for claim in study.claims],
        left_out=left_out,
    )


def _searched_seeds(ablation: Ablation, study: Study, results: Mapping[str, JobResult]) -> list[int]:
    """The seeds that count in the findings: as many as possible such that at least MOST_TASKS (a fraction) of
    the tasks that the most complete seed has are searched in all arms (ways to search) with all of them. So a
    study that is still searching its last seed reports the others. `results` are by arm, task and seed, as
    `Ablation.results` has them."""
    done: dict[int, set[str]] = {
        seed: {
            entry.name
            for entry in ablation.plan.tasks_of(study)
            if all(ablation.job(study, arm, entry, seed).key in results for arm in study.arms)
        }
        for seed in ablation.plan.seeds
    }
    ordered = sorted(done, key=lambda seed: -len(done[seed]))
    enough = MOST_TASKS * len(done[ordered[0]])
    while len(set.intersection(*(done[seed] for seed in ordered))) < enough:
        ordered.pop()
    return sorted(ordered)


class _Searches:
    """The searches that a study compares, with the statistics that its report shows. Only tasks that were
    searched in all arms (ways to search) count. `results` are by arm, task and seed; `budgets` say for each
    arm how many candidates a search may judge. The goal of a task is the best speedup over its baseline that
    any of its searches reached."""

    def __init__(
        self,
        results: Mapping[Key, JobResult],
        tasks: Sequence[str],
        seeds: Sequence[int],
        budgets: Mapping[str, int],
    ) -> None:
        self._results = results
        self.tasks = tasks
        self._seeds = seeds
        self._budgets = budgets
        self._goals = {
            task: max(s for key, r in results.items() if key[1] == task for s in r.judged if s is not None)
            for task in tasks
        }

    def arm(self, arm: Arm) -> ArmFindings:
        """Sums up all searches of one arm (a way to search): speedups, gain, evaluations needed, tokens."""
        every = [(task, self._results[arm.name, task, seed]) for task in self.tasks for seed in self._seeds]
        missed = sum(
            evaluations_until(result.judged, REACHED * self._goals[task]) is None for task, result in every
        )
        return ArmFindings(
            name=arm.name,
            searches=len(every),
            best=geometric_mean_interval(self.values(arm.name, "best")),
            gain=quartiles([result.gain for _, result in every if result.gain is not None]),
            evaluations=geometric_mean_interval(self.values(arm.name, "evaluations")),
            missed=missed,
            tokens=_interval(self.values(arm.name, "tokens")),
            curve=self._curve(arm.name),
        )

    def values(self, arm: str, measure: Measure) -> list[list[float]]:
        """The value of `measure` ("best", "evaluations" or "tokens") for each search of an arm (way to
        search): a list for each task, which has one value for each seed."""
        return [
            [self._value(arm, task, self._results[arm, task, seed], measure) for seed in self._seeds]
            for task in self.tasks
        ]

    def ratio(self, claim: Claim) -> Interval | None:
        """The geometric mean ratio of the claim's first arm to its second, paired by task and seed; None if
        there is no task, or a value is 0 (no tokens counted)."""
        mine, theirs = (self.values(name, claim.measure) for name in (claim.arm, claim.beside))
        if not _positive(mine) or not _positive(theirs):
            return None
        pairs = zip(mine, theirs, strict=True)
        return geometric_mean_interval([[a / b for a, b in zip(x, y, strict=True)] for x, y in pairs])

    def _value(self, arm: str, task: str, result: JobResult, measure: Measure) -> float:
        """The value of `measure` for one search: "tokens" it used, "best" speedup over the baseline, or
        "evaluations", the candidates judged until 95 % of the best speedup that any search of the task
        reached (the arm's whole budget if it never did). `result` is that of the search."""
        if measure == "tokens":
            return float(result.spent.tokens)
        if measure == "best":
            return max(speedup for speedup in result.judged if speedup is not None)
        return float(evaluations_until(result.judged, REACHED * self._goals[task]) or self._budgets[arm])

    def _curve(self, arm: str) -> tuple[Interval, ...]:
        """The progress of the searches of an arm (way to search): after 1, 2, ... evaluations the best
        speedup so far as a fraction of the goal (the best that any search of the task reached), as a
        geometric mean over the tasks with its interval; empty without tasks. `arm` is its name."""
        if not self.tasks:
            return ()
        curves = {
            task: [best_so_far(self._results[arm, task, s].judged, self._budgets[arm]) for s in self._seeds]
            for task in self.tasks
        }
        points = []
        for index in range(self._budgets[arm]):
            groups = [
                [value / self._goals[task] for curve in its_curves if (value := curve[index]) is not None]
                for task, its_curves in curves.items()
            ]
            point = geometric_mean_interval(groups)
            assert point is not None  # the first candidate of a search is valid
            points.append(point)
        return tuple(points)


def _positive(groups: Sequence[Sequence[float]]) -> bool:
    """Whether every value in `groups` (one list for each task) is above 0, since a geometric mean is only
    defined then."""
    return all(value > 0 for group in groups for value in group)


def _interval(groups: Sequence[Sequence[float]]) -> Interval | None:
    """The geometric mean over tasks with its confidence interval; `groups` has a list of values, one for each
    seed, for each task. None if a value is not positive or there is none."""
    return geometric_mean_interval(groups) if _positive(groups) else None


def _answer(claim: Claim, searches: _Searches) -> StudyAnswer:
    """What the results say about a claim of the paper, with a sentence; "undecided" with fewer than
    LEAST_TASKS tasks, or if there is nothing to compare. `searches` are those of the study that makes the
    claim."""
    ratio = searches.ratio(claim)
    if ratio is None:
        why = "no tokens were counted" if searches.tasks else "nothing was searched"
        return StudyAnswer(claim, None, "undecided", f"{claim.arm} beside {claim.beside}: {why}.")
    numbers = (
        f"{claim.arm} over {claim.beside}, {WORDS[claim.measure]}: {ratio.estimate:.3f} "
        f"({ratio.low:.3f} to {ratio.high:.3f})."
    )
    verdict = verdict_on(claim, ratio)
    if len(searches.tasks) < LEAST_TASKS:
        return StudyAnswer(
            claim, ratio, "undecided", f"{numbers} {len(searches.tasks)} tasks are too few to say."
        )
    if verdict == "no claim":
        return StudyAnswer(claim, ratio, verdict, f"{numbers} The paper makes no claim about it.")
    words = {
        "agrees": "This agrees with the paper",
        "contradicts": "This contradicts the paper",
        "undecided": "This neither confirms nor contradicts the paper",
    }[verdict]
    if verdict == "agrees" and claim.size is not None:
        low, high = _as_claimed(claim, ratio)
        words += (
            " in its direction, by less" if high < claim.size else ", by more" if low > claim.size else ""
        )
    return StudyAnswer(claim, ratio, verdict, f"{numbers} {words}: {claim.words}.")


def _as_claimed(claim: Claim, ratio: Interval) -> tuple[float, float]:
    """Returns (lower end, upper end) of the ratio's confidence interval, in the direction of the claim: above
    1 means that the claim holds. For a claim of "fewer", the inverse of the ratio is taken."""
    return (1 / ratio.high, 1 / ratio.low) if claim.direction == "fewer" else (ratio.low, ratio.high)


def verdict_on(claim: Claim, ratio: Interval) -> Verdict:
    """Returns whether the results agree with a claim, in a word. `ratio` is the first arm's value divided by
    the second's, with a confidence interval. For a claim of "more", the result is "agrees" if the whole
    interval is above 1, and "contradicts" if it is below; for "fewer" the other way round. For a claim of
    "little" difference, it is "agrees" if the whole interval is below 1.1 (LITTLE), and "contradicts" if it
    is above. In all cases it is "undecided" if the limit (1 or 1.1) lies in the interval, and "no claim" if
    the MAIC-RL paper makes none."""
    if not claim.words:
        return "no claim"
    low, high = _as_claimed(claim, ratio)
    if claim.direction == "little":
        return "agrees" if high < LITTLE else "contradicts" if low > LITTLE else "undecided"
    return "agrees" if low > 1 else "contradicts" if high < 1 else "undecided"
