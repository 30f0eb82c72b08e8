"""Make one task faster: a policy's candidates, the judge's verdicts, and a knowledge base that learns.

with open_searching("emulated") as judge, KnowledgeBase("kb.db") as knowledge:
    found = optimize(task, judge, knowledge, create_run(Path("runs")), Search(seed=1))

The loop itself is strategies/maic_rl.py; here is where it works: what it asks for is judged, recorded
and remembered.
"""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from math import exp
from typing import Any, Literal

from pydantic import TypeAdapter

from kernelblaster.errors import KernelBlasterError
from kernelblaster.judge.judge import Judge
from kernelblaster.knowledge.consolidate import Limits, consolidation
from kernelblaster.knowledge.content import Content, OptimizationEntry, Scored
from kernelblaster.knowledge.events import Change, Observed, OptimizationAdded, Provenance
from kernelblaster.knowledge.guess import GUESS_WEIGHT, guesses
from kernelblaster.knowledge.knowledge_base import KnowledgeBase
from kernelblaster.knowledge.payoff import payoffs
from kernelblaster.knowledge.recipes import UNKNOWN_REACH, is_recipe, reach, recipes_for
from kernelblaster.models.failures import BudgetSpent
from kernelblaster.policies.expert.policy import ExpertPolicy
from kernelblaster.policies.policy import Gap, Policy, Sample, Target
from kernelblaster.records import Candidate, Evaluation, Optimization, Profile, State, Step, Task
from kernelblaster.records.outcome import CORRECT
from kernelblaster.records.profile import Depth
from kernelblaster.store.replay import earlier_samples, samples
from kernelblaster.store.run import Run
from kernelblaster.strategies.budget import Budget
from kernelblaster.strategies.maic_rl import MaicRl
from kernelblaster.strategies.search import Search, Trial
from kernelblaster.strategies.strategy import Arrange, Strategy, way_to

CONSOLIDATED = 500  # the knowledge base is tidied each time that its version passes a multiple of this
_changes: TypeAdapter[list[Change]] = TypeAdapter(list[Change])


@dataclass(frozen=True)
class Progress:
    """What a watcher sees: when candidates go to the judge (`judging`, once for each), when a step is
    known (`stepped`: `step` is that step), and after an iteration (`learned`).

    `rollout`, `number` (of the step within its rollout), `state`, `technique` and `predicted` (a
    speedup) tell what is tried; `measured` what came of it: a speedup over the candidate before, or
    the kind of failure. Times of the first and the best candidate, the baseline and the floor are in
    microseconds; None as long as nothing was timed; `modelled` says that no clock measured them. What has
    no limit has nothing left to tell: None.
    """

    phase: Literal["judging", "stepped", "learned"]
    iteration: int
    evaluations: int
    evaluations_left: int
    seconds: float
    rollout: int | None = None
    number: int | None = None
    state: str | None = None
    technique: str | None = None
    predicted: float | None = None
    measured: float | str | None = None
    step: Step | None = None
    best_us: float | None = None
    first_us: float | None = None
    baseline_us: float | None = None
    floor_us: float | None = None
    seconds_left: float | None = None
    gpu_seconds_left: float | None = None
    modelled: bool = False


Tell = Callable[[Progress], None]


@dataclass(frozen=True)
class Optimized:
    """The best candidate with its verdict, the first correct one's verdict, and the way between them.
    `stopped` says why the search did not come to its end."""

    candidate: Candidate
    evaluation: Evaluation
    first: Evaluation
    applied: tuple[str, ...]
    steps: list[Step]
    stopped: str | None = None


def optimize(
    task: Task,
    judge: Judge,
    knowledge: KnowledgeBase,
    run: Run,
    search: Search,
    policy: Policy | None = None,
    tell: Tell = lambda progress: None,
    arrange: Arrange | None = None,
) -> Optimized:
    """Search from the policy's first candidate, by MAIC-RL or as arranged. A run that was begun before
    is continued: what it recorded is not done again. Where a budget for models is spent, the best so far
    is returned, and the run can be continued with a larger one."""
    session = RunSession(task, judge, knowledge, run, search, tell)
    strategy: Strategy
    if arrange is None:
        strategy = MaicRl(policy or expert_for(judge), session, search)
    else:
        strategy = arrange(session, search)
    try:
        best = strategy.run(task)
    except BudgetSpent as spent:
        return session.so_far(strategy.steps, spent)
    first = session.first_correct
    found = Optimized(best.attempt.candidate, best.evaluation, first, best.applied, strategy.steps)
    run.once("finished", "end", lambda: {"best": run.files.put(found.candidate.source)})
    return found


def expert_for(judge: Judge) -> ExpertPolicy:
    """The expert policy with the techniques that a device can run."""
    return ExpertPolicy(judge.device.spec.architecture, judge.device.modelled)


class RunSession:
    """Implements `Session` on a run, a judge and a knowledge base."""

    def __init__(
        self,
        task: Task,
        judge: Judge,
        knowledge: KnowledgeBase,
        run: Run,
        search: Search,
        tell: Tell = lambda progress: None,
    ) -> None:
        self._task = task
        self._judge = judge
        self._knowledge = knowledge
        self._run = run
        self._search = search
        self._tell = tell
        self._budget = Budget(search)
        before = [event.data["seconds"] for event in run.events if event.kind == "batch"]
        self._begun = time.monotonic() - max(before, default=0.0)
        self._iteration = self._theta = 0
        self._recorded = {event.key: event.data for event in run.events if event.kind == "evaluation"}
        self._profiled = {event.key: event.data for event in run.events if event.kind == "profile"}
        self._candidates: dict[str, Candidate] = {}
        self.evaluations: dict[str, Evaluation] = {}
        self.tried: list[Step] = []
        self.spec = judge.device.spec
        self.modelled = judge.device.modelled
        self.architecture = judge.device.spec.architecture

    @cached_property
    def floor_bytes(self) -> int:
        return self._judge.prepare(self._task)[1].bytes

    # Judging

    @property
    def evaluations_left(self) -> int:
        return self._budget.evaluations_left

    def first(self, candidate: Candidate) -> Evaluation:
        if candidate.code not in self.evaluations:
            self._judge_all([candidate])
        return self.evaluations[candidate.code]

    @property
    def first_correct(self) -> Evaluation:
        return next(e for e in self.evaluations.values() if isinstance(e.outcome, CORRECT))

    def ranked(self) -> list[tuple[Candidate, Evaluation]]:
        found = [
            (self._candidates[code], evaluation, evaluation.outcome.speedup.estimate)
            for code, evaluation in self.evaluations.items()
            if isinstance(evaluation.outcome, CORRECT)
        ]
        return [(c, e) for c, e, _ in sorted(found, key=lambda one: -one[2])]

    def so_far(self, steps: list[Step], stopped: KernelBlasterError) -> Optimized:
        """The best candidate when a search was stopped. Raises what stopped it where there is none."""
        ranked = self.ranked()
        if not ranked:
            raise stopped
        candidate, evaluation = ranked[0]
        applied = way_to(candidate.code, steps)
        return Optimized(candidate, evaluation, self.first_correct, applied, steps, str(stopped))

    def evaluate(self, key: str, trials: Sequence[Trial]) -> list[Evaluation | None]:
        for trial in trials:
            self._tell(self._progress("judging", trial))
        wanted = {t.candidate.code: t.candidate for t in trials if t.candidate.code not in self.evaluations}
        if wanted:
            seconds = time.monotonic() - self._begun
            granted = self._run.once(
                "batch",
                key,
                lambda: {"granted": self._budget.afford(len(wanted), seconds), "seconds": seconds},
                lasting=False,
            )
            self._judge_all(list(wanted.values())[: granted["granted"]])
        return [self._named(trial.candidate) for trial in trials]

    def _judge_all(self, candidates: Sequence[Candidate]) -> None:
        """Verdicts are recorded as they come, and count in the order of the candidates."""
        new = {c.digest: c for c in candidates if c.code not in self._recorded}
        for judged in self._judge.evaluate_many([(self._task, candidate) for candidate in new.values()]):
            candidate = new[judged.candidate]
            evaluation = self._confirmed(candidate, judged)
            source = self._run.files.put(candidate.source)
            data = {"source": source, "evaluation": json.loads(evaluation.model_dump_json())}
            self._recorded[candidate.code] = self._run.once("evaluation", candidate.code, lambda d=data: d)  # type: ignore[misc]
        for candidate in candidates:
            self._candidates[candidate.code] = candidate
            evaluation = Evaluation.model_validate(self._recorded[candidate.code]["evaluation"])
            self.evaluations[candidate.code] = evaluation
            self._budget.spend(evaluation)

    def _confirmed(self, candidate: Candidate, evaluation: Evaluation) -> Evaluation:
        """What would be the best of the run so far is looked at by the PTX machine too: a race may hide on a
        GPU for long."""
        if self.modelled or evaluation.timing is None or evaluation.timing.modelled:
            return evaluation
        known = (Evaluation.model_validate(data["evaluation"]) for data in self._recorded.values())
        times = [e.timing.candidate_us for e in known if e.timing and isinstance(e.outcome, CORRECT)]
        if evaluation.timing.candidate_us >= min(times, default=float("inf")):
            return evaluation
        return self._judge.confirmed(self._task, candidate, evaluation)

    def profile(self, candidates: Sequence[Candidate], depth: Depth = "usual") -> list[Profile | None]:
        wanted = [c for c in candidates if self.evaluations[c.code].profile is None]
        new = [c for c in wanted if c.code not in self._profiled]
        found = self._judge.profile(self._task, new, depth=depth) if new else []
        for candidate, profile in zip(new, found, strict=True):
            data = {"profile": profile.model_dump(mode="json") if isinstance(profile, Profile) else None}
            self._profiled[candidate.code] = self._run.once("profile", candidate.code, lambda d=data: d)  # type: ignore[misc]
        for candidate in wanted:
            kept = self._profiled[candidate.code]["profile"]
            known = {"profile": kept and Profile.model_validate(kept)}
            self.evaluations[candidate.code] = self.evaluations[candidate.code].model_copy(update=known)
        return [self.evaluations[c.code].profile for c in candidates]

    def _named(self, candidate: Candidate) -> Evaluation | None:
        """The evaluation of this code, whoever wrote it first."""
        found = self.evaluations.get(candidate.code)
        return found and found.model_copy(update={"candidate": candidate.digest})

    def good_enough(self, evaluation: Evaluation) -> bool:
        timing = evaluation.timing
        return timing is not None and timing.candidate_us <= self._search.near_floor * timing.floor_us

    # Knowing

    def theta(self, iteration: int) -> Content:
        self._iteration = iteration
        self._theta = self._run.once("theta", str(iteration), self._about_theta)["version"]
        return self._knowledge.at(self._theta)

    def _about_theta(self) -> dict[str, Any]:
        about = {"version": self._knowledge.version, "knowledge": self._knowledge.name}
        return about | {"architecture": self.architecture, "floor_bytes": self.floor_bytes}

    def now(self) -> Content:
        return self._knowledge.content()

    def once(self, kind: str, key: str, compute: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        return self._run.once(kind, key, compute, lasting=False)

    def options(
        self,
        theta: Content,
        target: Target,
        techniques: Sequence[str],
        applied: tuple[str, ...],
        place: Evaluation,
    ) -> tuple[str, list[Scored]]:
        name = self._knowledge.match(target.state, self._provenance())
        techniques = [*techniques, *recipes_for(theta, name, self.architecture, applied, target.family)]
        now = self.now().entries.get(name, {})
        if not set(techniques) <= now.keys():
            now = self._add(name, target, [t for t in techniques if t not in now], theta)
        known = theta.entries.get(name, {})
        about = (self.architecture, applied, target.family)
        entries = [known.get(t) or now[t].untried() for t in techniques if now[t].retired is None]
        prepared = payoffs(known, *about)
        found = [
            replace(entry.scored(*about), payoff=prepared.get(entry.technique, 0.0)) for entry in entries
        ]
        return name, [_from(place, one) if is_recipe(one.optimization.technique) else one for one in found]

    def offer(self, state: State, optimizations: Sequence[Optimization]) -> str:
        """The promise of whoever proposes a technique is worth as much as a guess."""
        name = self._knowledge.match(state, self._provenance())
        for optimization in optimizations:
            self._knowledge.add_optimization(name, optimization, GUESS_WEIGHT, self._provenance())
        return name

    def _add(
        self, name: str, target: Target, techniques: Sequence[str], theta: Content
    ) -> dict[str, OptimizationEntry]:
        expected = guesses(theta, target.state, techniques, self.architecture, target.family)
        added = [_guessed(name, technique, mean) for technique, mean in expected.items()]
        self._knowledge.record(added, self._provenance())
        return self.now().entries[name]

    # Learning

    def learn(self, key: str, steps: Sequence[Step]) -> None:
        self._run.once("steps", key, lambda: self._observe(steps))
        self.tried += steps
        for step in steps:
            self._tell(self._progress("stepped", step))

    def remember(self, key: str, step: Step) -> None:
        def record() -> dict[str, Any]:
            now = self.now()
            if step.technique not in now.entries.get(now.resolve(step.state), {}):
                added = _guessed(step.state, step.technique, UNKNOWN_REACH)
                self._knowledge.record([added], self._provenance(step))
            return self._observe([step])

        self._run.once("recipe", key, record)

    def _observe(self, steps: Sequence[Step]) -> dict[str, Any]:
        """Evidence; the same step of the same run is evidence once, however often it is recorded."""
        seen = []
        for step in steps:
            if step.result != "Unsupported":
                about = {name: getattr(step, name) for name in ("state", "technique", "result", "before")}
                timing = self.evaluations[step.child].timing
                if is_recipe(step.technique) and timing is not None:
                    about |= {"result": reach(timing), "before": ()}
                change = Observed.model_validate(about)
                uid = f"{self._run.id}/{step.parent}/{step.child}/{step.technique}"
                seen.append((change, self._provenance(step), sha256(uid.encode()).hexdigest()))
        self._knowledge.take_over(seen)
        return {"steps": [step.model_dump(mode="json") for step in steps]}

    def replay(self, steps: Sequence[Step]) -> list[Sample]:
        return samples(steps, self.evaluations, self.floor_bytes)

    @cached_property
    def earlier(self) -> list[Sample]:
        return earlier_samples(self._run, self._knowledge.name, self.architecture)

    def update(
        self, iteration: int, found: Callable[[Content], tuple[Sequence[Gap], Sequence[Change]]]
    ) -> None:
        record = self._run.once("update", str(iteration), lambda: self._found(found))
        self._knowledge.take_over(
            [
                (change, self._provenance(), f"{self._run.id}/update/{iteration}/{number}")
                for number, change in enumerate(_changes.validate_python(record["changes"]))
            ]
        )
        self._tell(self._progress("learned", None))

    def _found(self, found: Callable[[Content], tuple[Sequence[Gap], Sequence[Change]]]) -> dict[str, Any]:
        now = self.now()
        gaps, changes = found(now)
        tidied: list[Change] = []
        if self._theta // CONSOLIDATED < now.version // CONSOLIDATED:
            tidied = consolidation(now, self._search.seed, Limits())
        told = [
            {"state": g.discrepancy.state, "technique": g.discrepancy.technique, "cause": g.cause}
            | {"sentence": g.sentence, "moved": g.moved}
            for g in gaps
        ]
        return {"gaps": told, "changes": [c.model_dump(mode="json") for c in (*changes, *tidied)]}

    def _provenance(self, step: Step | None = None) -> Provenance:
        return Provenance(
            run=self._run.name,
            step=step.at[2] if step else None,
            candidate=step.child if step else None,
            gpu=self._judge.device.spec.name,
            architecture=self.architecture,
            task=self._task.name,
            family=step.family if step else None,
        )

    # Telling

    def _progress(self, phase: Literal["judging", "stepped", "learned"], of: Trial | Step | None) -> Progress:
        timings = [e.timing for e in self.evaluations.values() if e.timing is not None]
        seconds = time.monotonic() - self._begun
        seconds_left, gpu_seconds_left = self._budget.seconds_left(seconds)
        place = of.place.split("/") if of else []
        step = of if isinstance(of, Step) else None
        return Progress(
            phase=phase,
            iteration=self._iteration,
            evaluations=self._budget.evaluations,
            evaluations_left=self._budget.evaluations_left,
            seconds=seconds,
            rollout=int(place[1]) if place else None,
            number=int(place[2]) if place else None,
            state=of.state if of else None,
            technique=of.technique if of else None,
            predicted=of.predicted if of else None,
            measured=None if step is None else _speedup(step.result),
            step=step,
            best_us=min((timing.candidate_us for timing in timings), default=None),
            first_us=timings[0].candidate_us if timings else None,
            baseline_us=timings[0].baseline_us if timings else None,
            floor_us=timings[0].floor_us if timings else None,
            seconds_left=seconds_left,
            gpu_seconds_left=gpu_seconds_left,
            modelled=self.modelled,
        )


def _from(place: Evaluation, recipe: Scored) -> Scored:
    """What a recipe, of which is known where it leads, gains from a place."""
    if place.timing is None:
        return recipe
    mean = recipe.prediction.mean - reach(place.timing)
    optimization = recipe.optimization.model_copy(update={"predicted": exp(mean)})
    return replace(recipe, optimization=optimization, prediction=replace(recipe.prediction, mean=mean))


def _guessed(state: str, technique: str, mean: float) -> OptimizationAdded:
    title = technique.replace("_", " ")
    guess = Optimization(technique=technique, title=title, description="", predicted=exp(mean))
    return OptimizationAdded(state=state, optimization=guess, weight=GUESS_WEIGHT)


def _speedup(result: float | str) -> float | str:
    return exp(result) if isinstance(result, float) else result
