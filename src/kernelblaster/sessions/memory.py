"""`Memory`: how one run reads the knowledge base and adds to it. What a run has added is not added again when
the run is continued."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from hashlib import sha256
from math import exp, log
from typing import Any

from pydantic import TypeAdapter

from kernelblaster.devices.specs import GpuSpec
from kernelblaster.knowledge.consolidate import KnowledgeLimits, consolidation
from kernelblaster.knowledge.content import Content, OptimizationEntry, Scored
from kernelblaster.knowledge.event_rows import Fresh
from kernelblaster.knowledge.events import (
    Change,
    Exemplified,
    KnowledgeEvent,
    Observed,
    OptimizationAdded,
    Provenance,
)
from kernelblaster.knowledge.evidence import platform
from kernelblaster.knowledge.exemplar import LONGEST, Exemplar
from kernelblaster.knowledge.guess import GUESS_WEIGHT, UNKNOWN, guesses
from kernelblaster.knowledge.knowledge_base import KnowledgeBase
from kernelblaster.knowledge.payoff import payoffs
from kernelblaster.knowledge.recipes import UNKNOWN_REACH, reach, recipes_for
from kernelblaster.knowledge.retrieval import Neighbourhood
from kernelblaster.records import Evaluation, Optimization, State, Step, Target, Task, Timing
from kernelblaster.records.outcome import TEACHES_NOTHING
from kernelblaster.records.recipe import is_recipe
from kernelblaster.records.step import Gained, stored_result
from kernelblaster.sessions.judging import Judging
from kernelblaster.store.replay import Sample, earlier_samples, samples
from kernelblaster.store.run import Run

CONSOLIDATED = 500  # the knowledge base is tidied each time that its version passes a multiple of this
_changes: TypeAdapter[list[Change]] = TypeAdapter(list[Change])


class Memory:
    """The knowledge base as one run, a search for `task` on `gpu`, uses it. `theta` is its content as it was
    when the iteration began (empty before `freeze`). All rollouts choose techniques by `theta`, so that their
    choices do not depend on which of them learns first. The run records what it has taught, so that nothing
    is taught twice. `judging` has the run's evaluations, and tells whether times are modelled. `seed`
    determines which evidence `tidying` chooses at random to give less weight."""

    def __init__(
        self, task: Task, gpu: GpuSpec, knowledge: KnowledgeBase, run: Run, judging: Judging, seed: int
    ) -> None:
        self._task = task
        self._gpu = gpu
        self._knowledge = knowledge
        self._run = run
        self._judging = judging
        self._seed = seed
        self.theta = Content()

    @property
    def architecture(self) -> str:
        """The name under which the knowledge base keeps results from this run's device: the GPU's
        architecture, such as `sm_90a`, or `sm_90a (modelled)` if times are modelled."""
        return platform(self._gpu.architecture, modelled=self._judging.modelled)

    # Reading

    def freeze(self, iteration: int) -> Content:
        """Begins an iteration: keeps the present content of the knowledge base as `theta`, and returns it.
        Until the next iteration begins, techniques are chosen by this content. Its version is recorded, so
        that a continued run uses the same content."""
        version = self._run.once("theta", str(iteration), self._about)["version"]
        self.theta = self._knowledge.at(version)
        return self.theta

    def now(self) -> Content:
        """Returns the content of the knowledge base at this moment, with all that this run and others have
        taught since the iteration began."""
        return self._knowledge.content()

    def match(self, state: State) -> str:
        """Returns the name under which the knowledge base has the performance state `state`: its own name if
        the knowledge base knows that, else the name of the nearest known state. If none is within the
        distance 0.5 (MATCH in matching.py; 0 is equal), `state` is added and its own name returned."""
        return self._knowledge.match(state, self._provenance())

    def retrieve(
        self, target: Target, techniques: Sequence[str], applied: tuple[str, ...], parent: Evaluation
    ) -> tuple[str, list[Scored]]:
        """Returns (the name of the known performance state that matches the state of the kernel `target`,
        predictions). There is one prediction for each of the `techniques`, and for each recipe (several
        techniques in one step) that the knowledge base offers for the kernel; techniques and recipes that are
        retired in the state have none. A prediction is the log speedup that is expected over the candidate
        with the evaluation `parent`, in which the techniques `applied` were used. It is made by `theta`, the
        knowledge base's content when the iteration began. If a technique was not tried in the state, it is
        predicted from similar states; if the state does not have it, it is added there with a weak prior."""
        state = self.match(target.state)
        recipes = recipes_for(self.theta, state, self.architecture, applied, target.family)
        techniques = list(dict.fromkeys([*techniques, *map(str, recipes)]))
        now = self.now().entries.get(state, {})
        if not set(techniques) <= now.keys():
            now = self._add(state, target, [t for t in techniques if t not in now])
        known = self.theta.entries.get(state, {})
        about = (self.architecture, applied, target.family)
        around = Neighbourhood(self.theta, target.state)
        entries = [
            around.completed(known.get(t) or now[t].untried()) for t in techniques if now[t].retired is None
        ]
        prepared = payoffs(known, *about)
        scored = [
            replace(entry.scored(*about), payoff=prepared.get(entry.technique, 0.0)) for entry in entries
        ]
        return state, [_from(parent.timing, one) for one in scored]

    @cached_property
    def earlier(self) -> list[Sample]:
        """The replay buffer: steps of earlier runs that used the same knowledge base on the same GPU
        architecture, each with the evaluations before and after it."""
        return earlier_samples(self._run, self._knowledge.name, self.architecture)

    def replay(self, steps: Sequence[Step]) -> list[Sample]:
        """Returns these steps of the present run as samples: each step with the evaluation of the candidate
        to which its technique was applied, and that of the resulting candidate."""
        return samples(steps, self._judging.evaluations, self._judging.floor_bytes)

    # Teaching

    def offer(
        self, state: State, optimizations: Sequence[Optimization], parent: Evaluation | None = None
    ) -> str:
        """Adds `optimizations` (techniques with predicted speedups) to the known performance state that
        matches `state` (the nearest one, or `state` itself if none is near), and returns that state's name. A
        technique that the known state has already is not changed. A predicted speedup is over the candidate
        with the evaluation `parent`, and counts as half an observation (GUESS_WEIGHT). For a recipe (several
        techniques in one step), the knowledge base keeps how fast the result should be, as a fraction of the
        roofline floor's speed. That is computed from the prediction and the time of `parent`; it is 0.5 if
        there is no time."""
        name = self.match(state)
        timing = parent.timing if parent else None
        for optimization in optimizations:
            added = _with_reach(timing, optimization)
            self._knowledge.add_optimization(name, added, GUESS_WEIGHT, self._provenance())
        return name

    def observe(self, key: str, steps: Sequence[Step]) -> None:
        """Teaches the knowledge base the results of these steps, failures included: each counts for its
        technique in the performance state of the candidate before it. Does nothing if `key` was recorded in
        this run before."""
        self._run.once("steps", key, lambda: self._observe(steps))

    def remember_recipe(self, key: str, step: Step) -> None:
        """Teaches the knowledge base a recipe (several techniques that led from the first candidate to the
        best one so far). The `technique` of `step` is the recipe, and its `result` is what the recipe gained
        in all. The recipe is added to the performance state of the step if it is not there yet. Does nothing
        if `key` was recorded in this run before."""

        self._run.once("recipe", key, lambda: self._observe([step]))

    def exemplify(self, key: str, state: str, exemplar: Exemplar) -> None:
        """Adds `exemplar`, the source of a good candidate, to the knowledge base as an example in the
        performance state named `state`, where its search began, unless the source is too long (LONGEST
        characters). Does nothing if `key` was recorded in this run before."""

        def record() -> dict[str, Any]:
            added = Exemplified(state=state, exemplar=exemplar)
            kept = len(exemplar.source) <= LONGEST
            if kept:
                uid = sha256(f"{self._run.id}/exemplar/{key}".encode()).hexdigest()
                self._knowledge.take_over([(added, self._provenance(), uid)])
            return {"kept": kept}

        self._run.once("exemplar", key, record)

    def withdraw(self, code: str, steps: Sequence[Step]) -> None:
        """Takes back what the candidate `code` of this run has taught the knowledge base, because a review
        rejected the candidate. `steps` are all steps of the run. The results of the steps that made the
        candidate, and of those that started from it, no longer count; for the steps that made it, a failure
        of the kind `Rejected` counts instead. Does nothing if this run has done so before."""
        children = {step.child for step in steps if code in (step.parent, step.child)}
        rejected = {(step.state, step.technique): step for step in steps if step.child == code}

        def concerned(event: KnowledgeEvent) -> bool:
            return event.provenance.run == self._run.name and event.provenance.candidate in children

        def record() -> dict[str, Any]:
            count = self._knowledge.withdraw(concerned)
            instead = [
                (
                    Observed(state=state, technique=technique, result="Rejected", before=step.before),
                    self._provenance(step),
                    sha256(f"{self._run.id}/rejected/{code}/{state}/{technique}".encode()).hexdigest(),
                )
                for (state, technique), step in rejected.items()
            ]
            self._knowledge.take_over(instead)
            return {"withdrawn": count}

        self._run.once("withdrawn", code, record)

    def apply(self, iteration: int, changes: Sequence[dict[str, Any]]) -> None:
        """Makes `changes` (JSON data) to the knowledge base, which were decided after the iteration with the
        number `iteration`. A change is recognized by this number and its position in `changes`: one that this
        run has made before is skipped, so that a continued run makes none twice."""
        self._knowledge.take_over(
            [
                (change, self._provenance(), f"{self._run.id}/update/{iteration}/{number}")
                for number, change in enumerate(_changes.validate_python(changes))
            ]
        )

    def tidying(self, now: Content) -> list[Change]:
        """Returns the changes that would keep the knowledge base small: similar performance states merged,
        techniques that do not pay retired, old evidence given less weight. `now` is its present content. This
        is due only when its version (the number of events recorded in it) has reached or passed a multiple of
        500 (CONSOLIDATED) since the iteration began; otherwise the result is empty."""
        if self.theta.version // CONSOLIDATED == now.version // CONSOLIDATED:
            return []
        return consolidation(now, self._seed, KnowledgeLimits())

    def _about(self) -> dict[str, Any]:
        """What is recorded when an iteration begins, as JSON data: which knowledge base at which version, the
        GPU's architecture, and the least bytes that the task must move."""
        about = {"version": self._knowledge.version, "knowledge": self._knowledge.name}
        return about | {"architecture": self.architecture, "floor_bytes": self._judging.floor_bytes}

    def _add(self, state: str, target: Target, techniques: Sequence[str]) -> dict[str, OptimizationEntry]:
        """Adds techniques to a state with guessed expectations, taken from similar states for kernels like
        `target`; returns all entries of that state by technique."""
        expected = guesses(self.theta, target.state, techniques, self.architecture, target.family)
        added = [_guessed(state, technique, mean) for technique, mean in expected.items()]
        self._knowledge.record(added, self._provenance())
        return self.now().entries[state]

    def _observe(self, steps: Sequence[Step]) -> dict[str, Any]:
        """Teaches the knowledge base the results of steps; returns the steps as JSON data. A step counts
        once, however often it is taught. Steps that the device could not judge are left out. Techniques and
        recipes that their state does not have are added to it; steps of strategies without memory have no
        state, and add none."""
        seen: list[Fresh] = []
        now = self.now()
        for state, technique in dict.fromkeys((step.state, step.technique) for step in steps):
            if state and technique not in now.entries.get(now.resolve(state), {}):
                added = _guessed(state, technique, UNKNOWN_REACH if is_recipe(technique) else UNKNOWN)
                uid = f"{self._run.id}/added/{state}/{technique}"
                seen.append((added, self._provenance(), sha256(uid.encode()).hexdigest()))
        for step in steps:
            if step.failure not in TEACHES_NOTHING:
                uid = f"{self._run.id}/{step.parent}/{step.child}/{step.technique}"
                observed = self._observed(step)
                seen.append((observed, self._provenance(step), sha256(uid.encode()).hexdigest()))
        self._knowledge.take_over(seen)
        return {"steps": [step.model_dump(mode="json") for step in steps]}

    def _observed(self, step: Step) -> Observed:
        """Returns the event by which the knowledge base learns from a step. For a single technique it has the
        log speedup over the candidate before. For a recipe (several techniques in one step) it has the reach:
        the log of the new candidate's speed relative to that of the floor, the least time that the GPU
        allows."""
        timing = self._judging.evaluations[step.child].timing
        result, before = step.result, step.before
        if is_recipe(step.technique) and timing is not None:
            result, before = Gained(reach(timing)), ()
        about = {"state": step.state, "technique": step.technique, "before": before}
        return Observed.model_validate({**about, "result": stored_result(result)})

    def _provenance(self, step: Step | None = None) -> Provenance:
        """Where a change of the knowledge base comes from, to be recorded with it: this run with its GPU and
        task, and `step` if a single step taught it."""
        return Provenance(
            run=self._run.name,
            step=step.id.number if step else None,
            candidate=step.child if step else None,
            gpu=self._gpu.name,
            architecture=self.architecture,
            task=self._task.name,
            family=step.family if step else None,
        )


def _from(timing: Timing | None, scored: Scored) -> Scored:
    """Converts the score of a recipe (several techniques in one step). The knowledge base keeps a recipe's
    reach, the log of its speed relative to the roofline floor's; the result has the log speedup over a
    candidate of this `timing` instead. Scores of single techniques are returned unchanged, and so are all if
    `timing` is None."""
    if timing is None or not is_recipe(scored.optimization.technique):
        return scored
    mean = scored.prediction.mean - reach(timing)
    optimization = scored.optimization.model_copy(update={"predicted": exp(mean)})
    return replace(scored, optimization=optimization, prediction=replace(scored.prediction, mean=mean))


def _with_reach(timing: Timing | None, optimization: Optimization) -> Optimization:
    """Converts the prediction of a recipe (several techniques in one step). `optimization` has a speedup over
    a candidate of this `timing`; the result has the recipe's reach instead, its speed as a fraction of the
    roofline floor's, at most 1. If `timing` is None, one half is assumed. A single technique is returned
    unchanged."""
    if not is_recipe(optimization.technique):
        return optimization
    mean = UNKNOWN_REACH if timing is None else min(0.0, log(optimization.predicted) + reach(timing))
    return optimization.model_copy(update={"predicted": exp(mean)})


def _guessed(state: str, technique: str, mean: float) -> OptimizationAdded:
    """A change of the knowledge base: a technique becomes known in a state. Its log speedup is guessed to be
    `mean`, which counts as GUESS_WEIGHT observations."""
    title = technique.replace("_", " ")
    guess = Optimization(technique=technique, title=title, description="", predicted=exp(mean))
    return OptimizationAdded(state=state, optimization=guess, weight=GUESS_WEIGHT)
