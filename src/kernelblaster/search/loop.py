"""MAIC-RL, the whole search loop: evaluate, profile, extract, match, retrieve, choose, lower, judge, learn.

    for each iteration:
        theta = the knowledge base as it is now
        for each step, until every rollout has ended:
            steer     obey what people have asked for meanwhile                 (session.steer)
            profile   the candidates at which the rollouts stand
            extract   the performance states of their kernels                   (policy)
            match     each state to one that the knowledge base knows           (session.ask)
            retrieve  what theta expects of techniques in that state            (session.ask)
            choose    techniques at random, in proportion to what they promise
            lower     each technique: apply it, which gives a candidate         (policy)
            judge     all candidates of all rollouts together                   (session.tell)
            learn     what each technique gained in its state                   (session.learn)
        learn from the iteration: policy evaluation, gap analysis, parameter update

A rollout walks from candidate to candidate. Several walk side by side, and their candidates are judged in one
batch. Everything random follows from the seed, and everything that was chosen or judged is recorded. So a
search that was killed and continued ends as if it had not been killed."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from math import exp, log
from random import Random

from kernelblaster.errors import KernelBlasterError
from kernelblaster.knowledge.content import Scored
from kernelblaster.knowledge.exemplar import Exemplar
from kernelblaster.knowledge.recipes import reach, recipe_of
from kernelblaster.knowledge.select import RULES
from kernelblaster.policies.policy import WORTH_SAYING, Attempt, Policy
from kernelblaster.records import (
    Candidate,
    CompileFailed,
    Gained,
    Incorrect,
    Profile,
    Rejected,
    RuntimeFailed,
    Step,
    StepId,
    Target,
    Task,
    Unsupported,
)
from kernelblaster.records.outcome import CORRECT
from kernelblaster.records.recipe import techniques_of
from kernelblaster.search.first_candidate import not_correct
from kernelblaster.search.strategy import Best
from kernelblaster.search.tree import Branch, Rollout, SearchNode, done, node_behind, step_of
from kernelblaster.sessions.log import Trial
from kernelblaster.sessions.session import Advice, Session
from kernelblaster.store.replay import Sample

WORTH_TAKING = 0.01  # log speedup: less is within the judge's resolution
SIDEWAYS = 0.03  # log slowdown that a rollout accepts where nothing pays: it may prepare what does
WORTH_TRYING = 0.25  # of the largest promise in a batch: what promises less waits for its turn
BY_CHANCE = 0.1  # of the choices: their first technique is tried whatever it promises
ROUNDS = 3  # times that a policy is asked for techniques at one node, where all that it offered is used up
FIRST_MOVE = 0.7  # chance of a technique's most promising move; else of the next, and so on
WORTH_SHOWING = 1.2  # speedup over the first candidate, below which the best one is no example
RETRIED = (CompileFailed, Incorrect, RuntimeFailed, Rejected)


class MaicRl:
    """One search for a faster candidate, by the strategy MAIC-RL: memory-augmented in-context reinforcement
    learning, the loop that this module describes. `policy` makes candidates by applying techniques; `session`
    has them judged, reads and teaches the knowledge base, and keeps the record. Each application of a
    technique, with the judge's verdict on the new candidate, is a step; `steps` are those made so far."""

    def __init__(self, policy: Policy, session: Session) -> None:
        self._policy = policy
        self._session = session
        self._search = session.search
        self._seed = str(session.search.seed)
        self._nodes: dict[str, SearchNode] = {}
        self._candidates: dict[str, Candidate] = {}
        self._profiles: dict[str, Profile | None] = {}
        self._tried: set[str] = set()  # codes of candidates that need not be tried again
        self._exhausted: set[str] = set()  # codes of nodes with nothing left to try
        self._unsupported: set[str] = set()  # techniques that the device cannot judge
        self.steps: list[Step] = []

    def run(self, task: Task) -> Best:
        """Searches for a faster candidate for `task` until all iterations are done, the budget is spent, the
        best time is near the floor (the least that the GPU's bandwidth and peak rates allow), or nothing is
        left to try. Returns the fastest correct candidate. Raises KernelBlasterError if the first candidate
        is not correct."""
        self._seed = f"{self._search.seed}/{task.name}"
        self._evaluate_first(task)
        for iteration in range(self._search.iterations):
            self._session.steer(f"iteration {iteration}")
            if iteration and (self._done or not self._open):
                break
            self._session.begin_iteration(iteration)
            before = len(self.steps)
            self._walk(iteration)
            self._learn(iteration, before)
            self._remember_recipe(iteration)
            self._keep_exemplar(iteration)
        best = self._best
        return Best(best.attempt.candidate, best.evaluation, best.applied, self._ended)

    @property
    def _best(self) -> SearchNode:
        return max(self._nodes.values(), key=lambda node: node.speedup)

    @property
    def _open(self) -> list[SearchNode]:
        """The correct candidates found so far from which there may be a technique left to try."""
        return [node for node in self._nodes.values() if node.code not in self._exhausted]

    @property
    def _done(self) -> bool:
        """Whether the whole search should end: the budget is spent, or the best candidate is near the floor
        (the least time that the GPU's bandwidth and peak rates allow)."""
        judging = self._session.judging
        return judging.budget.spent or judging.near_floor(self._best.evaluation)

    @property
    def _ended(self) -> str:
        """Why the search ends, as a phrase for the record: near the floor, budget spent, iterations done, or
        nothing left to try."""
        if self._session.judging.near_floor(self._best.evaluation):
            return "the floor is near"
        if self._session.judging.budget.spent:
            return "the budget is spent"
        return "all iterations are done" if self._open else "nothing is left to try"

    # Evaluate

    def _evaluate_first(self, task: Task) -> None:
        """Have the policy's initial candidate judged; it becomes the root of the tree. Raises
        KernelBlasterError if it is not correct."""
        attempt = self._policy.initial(task)
        evaluation = self._session.judging.judge(attempt.candidate)
        if not isinstance(evaluation.outcome, CORRECT):
            raise KernelBlasterError(not_correct(task, attempt.candidate, evaluation.outcome))
        self._first = node = SearchNode(attempt, evaluation)
        self._nodes[node.code] = node
        self._tried.add(node.code)

    # Walk

    def _walk(self, iteration: int) -> None:
        """One iteration of rollouts (chains of steps from candidate to candidate): all make one step
        together, then the next, until all have ended."""
        rollouts = [Rollout(n, self._origin(iteration, n)) for n in range(self._search.rollouts)]
        for number in range(self._search.steps):
            walking = [rollout for rollout in rollouts if not rollout.ended]
            if not walking or self._done:
                break
            self._step(walking, iteration, number)

    def _origin(self, iteration: int, rollout: int) -> SearchNode:
        """The candidate at which a rollout (one walk from candidate to candidate) begins. For rollout 0 it is
        the fastest one with a technique left to try; for others it is drawn among all that have one, in
        proportion to their speedups."""
        if rollout == 0:
            return max(self._open, key=lambda node: node.speedup)
        random = Random(f"{self._seed}/{iteration}/{rollout}")
        return random.choices(self._open, [node.speedup for node in self._open])[0]

    def _step(self, rollouts: Sequence[Rollout], iteration: int, number: int) -> None:
        """Makes one step of these rollouts (walks from candidate to candidate): choose techniques, judge
        their candidates in one batch, retry failures, move each rollout to its best candidate, learn.
        `number` is the step's number within the iteration."""
        self._session.steer(f"{iteration}/{number}")
        self._profile([rollout.node.attempt.candidate for rollout in rollouts])
        branches = [b for r in rollouts for b in self._branches(r, StepId(iteration, r.number, number))]
        key = f"{iteration}/{number}"
        judged = self._judge(key, self._worthwhile(branches))
        again = judged
        for retry in range(1, self._search.retries + 1):
            again = self._judge(f"{key}.{retry}", [r for one in again for r in self._retried(one, retry)])
            judged += again
        steps = [step for rollout in rollouts for step in self._advance(rollout, judged)]
        if steps:
            self._session.learn(key, steps)
        self.steps += steps

    # Profile

    def _profile(self, candidates: Sequence[Candidate]) -> None:
        """Profile those candidates that have no profile yet; `_profiles` has them afterwards (None where
        it failed)."""
        new = {c.code: c for c in candidates if c.code not in self._profiles}
        profiles = self._session.judging.profile(list(new.values()), self._policy.depth) if new else []
        self._profiles |= dict(zip(new, profiles, strict=True))

    # Extract

    def _targets(self, rollout: Rollout) -> list[Target]:
        """The kernels of the candidate at which a rollout (one walk from candidate to candidate) stands, with
        their performance states, the most worthwhile first. After each step without a gain, the list begins
        one kernel later, so that another one is tried first. Empty without a profile."""
        profile = self._profiles[rollout.node.code]
        if profile is None:
            return []
        floor_bytes = self._session.judging.floor_bytes
        targets = list(self._policy.targets(rollout.node.attempt, profile, floor_bytes))
        turn = rollout.fruitless % len(targets) if targets else 0
        return targets[turn:] + targets[:turn]

    # Match, retrieve, choose

    def _branches(self, rollout: Rollout, at: StepId) -> Iterator[Branch]:
        """Yields the techniques to try at the candidate at which a rollout (one walk from candidate to
        candidate) stands in step `at`, each with the candidate that applies it. What was chosen is recorded
        first, and the candidates are made from the record, so that a continued search makes the same ones. If
        nothing was chosen, the rollout ends."""
        node, key = rollout.node, f"{at.iteration}/{at.rollout}/{at.number}"
        targets = self._targets(rollout)
        chosen = self._session.log.once("choice", key, lambda: self._choose(node, targets, key))
        for choice, option in enumerate(chosen["options"]):
            target = targets[chosen["target"]]
            asked = option.get("asked", option["technique"])
            attempt = self._lowered(node, asked, target, option["move"], key)
            self._tried.add(attempt.candidate.code)
            trial = Trial(
                replace(at, choice=choice),
                chosen["state"],
                option["technique"],
                option["predicted"],
                attempt.candidate,
            )
            certain = option.get("pinned", False) or (chosen["by_chance"] and choice == 0)
            yield Branch(rollout, target, attempt, trial, asked, option["promise"], option["payoff"], certain)
        if not chosen["options"]:
            rollout.ended = True
            self._exhausted.add(node.code)

    def _choose(self, node: SearchNode, targets: Sequence[Target], key: str) -> dict[str, object]:
        """Chooses what to try at a candidate `node`, and returns it as JSON data to record: the first of
        `targets` (kernels) with something left to try, by its number, with its performance state; and up to
        `choices` techniques for it, each with the number of one of the candidates that it can give. If
        nothing is left, the policy is asked again for more techniques, up to ROUNDS times in all. `key` seeds
        the random choice."""
        random = Random(f"{self._seed}/{key}")
        by_chance = random.random() < BY_CHANCE
        offered: dict[int, set[str]] = {number: set() for number in range(len(targets))}
        for again in range(ROUNDS):
            for number, target in enumerate(targets):
                techniques = self._proposals(node, target, again, f"{key}/{number}")
                new = [technique for technique in techniques if technique not in offered[number]]
                offered[number].update(new)
                if again and not new:
                    continue
                advice = self._session.ask(target, new, node.applied, node.attempt.candidate)
                options = self._options(node, target, advice, random, by_chance)
                if options:
                    about = {"state": advice.state, "target": number, "by_chance": by_chance}
                    return {**about, "options": options}
        return {"state": "", "options": []}

    def _options(
        self, node: SearchNode, target: Target, advice: Advice, random: Random, by_chance: bool
    ) -> list[dict[str, object]]:
        """Returns up to `choices` techniques of the advice, as JSON data, that lead to candidates which were
        not tried yet. Techniques that lead to the same candidate count as one, and all of them learn from it.
        If only a part of a recipe can be applied, `technique` is that part and `asked` the recipe; this is
        passed over if the part is offered by itself."""
        options: list[dict[str, object]] = []
        codes: set[str] = set()
        names = {scored.optimization.technique for scored in advice.options}
        for offered in self._ordered(advice, random, by_chance):
            scored, asked = offered, offered.optimization.technique
            pinned = asked in self._session.steering.pinned
            move = self._new_move(node, asked, target, random)
            if move is None:
                continue
            number, attempt = move
            technique = done(asked, attempt, node.applied)
            if technique != asked:
                if technique in names and not pinned:
                    continue
                names.add(technique)
            known = scored if technique == asked else self._expected(node, target, technique)
            codes.add(attempt.candidate.code)
            options.append(
                {
                    "technique": technique,
                    "move": number,
                    "predicted": exp(known.prediction.mean),
                    "promise": known.promise,
                    "payoff": known.payoff,
                    **({"asked": asked} if technique != asked else {}),
                    **({"pinned": True} if pinned else {}),
                }
            )
            if len(codes) == self._search.choices:
                break
        return options

    def _expected(self, node: SearchNode, target: Target, technique: str) -> Scored:
        """What the knowledge base expects of one technique or recipe at a candidate `node`; unknown ones are
        added to it."""
        advice = self._session.ask(target, [technique], node.applied, node.attempt.candidate)
        return next(one for one in advice.options if one.optimization.technique == technique)

    def _proposals(self, node: SearchNode, target: Target, again: int, key: str) -> list[str]:
        """Techniques that the policy offers for the kernel `target` of the candidate `node`, and those that a
        person pinned (asked to try first) and the policy can apply; `again` counts how often they were used
        up. They are recorded under `key` before they are used: new ones are added to the knowledge base, and
        a policy that reads it would offer others after a crash."""
        key = f"{key}.{again}" if again else key
        proposals = list(self._policy.proposals(node.attempt, target, again))
        for technique in self._session.steering.pinned:
            if technique not in proposals and next(self._policy.moves(node.attempt, technique, target), None):
                proposals.append(technique)
        return list(self._session.log.once("proposals", key, lambda: {"techniques": proposals})["techniques"])

    def _ordered(self, advice: Advice, random: Random, by_chance: bool) -> list[Scored]:
        """The options of `advice` that the device supports and no person forbade, in the order in which they
        are to be tried: pinned ones first, the others drawn by the selection rule, or purely at random if
        `by_chance`, so that underestimated techniques are tried too."""
        steering = self._session.steering
        known = [
            o
            for o in advice.options
            if self._unsupported.isdisjoint(techniques_of(o.optimization.technique))
            and steering.allows(o.optimization.technique)
        ]
        if by_chance:
            drawn = random.sample(known, len(known))
        else:
            drawn = RULES[self._search.selection](known, len(known), random, self._search.sharpness)
        pinned = [o for name in steering.pinned for o in drawn if o.optimization.technique == name]
        return [*pinned, *(o for o in drawn if o not in pinned)] if pinned else drawn

    def _worthwhile(self, branches: Sequence[Branch]) -> list[Branch]:
        """The branches that promise at least WORTH_TRYING of the most promising one in the batch, or are
        tried whatever they promise; most promising first. The others are dropped and may be chosen again
        later."""
        least = WORTH_TRYING * max((one.promise for one in branches), default=0.0)
        kept = [one for one in branches if one.certain or one.promise >= least]
        self._tried -= {one.attempt.candidate.code for one in branches}
        self._tried |= {one.attempt.candidate.code for one in kept}
        return sorted(kept, key=lambda one: -one.promise)

    # Lower

    def _new_move(
        self, node: SearchNode, technique: str, target: Target, random: Random
    ) -> tuple[int, Attempt] | None:
        """Returns a way to apply this technique to the kernel `target` of the candidate `node` that was not
        tried yet, as (number, attempt); None if all were tried. It is usually the policy's first, which is
        its best. If several are sampled (`Search.samples`), it is the one that the emulator's timing model
        finds fastest."""
        moves = enumerate(self._policy.moves(node.attempt, technique, target))
        new = ((n, a) for n, a in moves if a.candidate.code not in self._tried)
        if self._search.samples > 1:
            sampled = {
                attempt.candidate.code: (n, attempt) for n, attempt in islice(new, self._search.samples)
            }
            candidates = [attempt.candidate for _, attempt in sampled.values()]
            return sampled[self._session.judging.fastest(candidates).code] if sampled else None
        first = None
        for number, attempt in new:
            first = first or (number, attempt)
            if random.random() < FIRST_MOVE:
                return number, attempt
        return first

    def _lowered(self, node: SearchNode, technique: str, target: Target, move: int, key: str) -> Attempt:
        """The candidate that the policy makes of `node` by applying `technique` to its kernel `target` in the
        way with the number `move`. Raises KernelBlasterError if there is none: the policy has changed since
        the choice was recorded under `key`."""
        moves = self._policy.moves(node.attempt, technique, target)
        attempt = next((attempt for number, attempt in enumerate(moves) if number == move), None)
        if attempt is None:
            raise KernelBlasterError(
                f"the policy does not write what this run recorded at {key}: it has changed since. "
                "Start the run anew."
            )
        return attempt

    def _retried(self, failed: Branch, retry: int) -> Iterator[Branch]:
        """Another attempt at a branch that failed: the same technique with a corrected candidate, if its
        outcome is one of RETRIED and the policy has another; else nothing. `retry` counts from 1."""
        assert failed.evaluation is not None
        if not isinstance(failed.evaluation.outcome, RETRIED):
            return
        node = failed.rollout.node
        attempt = self._policy.retry(node.attempt, failed.asked, failed.attempt, failed.evaluation)
        if attempt is None or attempt.candidate.code in self._tried:
            return
        self._tried.add(attempt.candidate.code)
        trial = replace(
            failed.trial,
            id=failed.trial.id.retried(retry),
            technique=done(failed.asked, attempt, node.applied),
            candidate=attempt.candidate,
        )
        yield replace(failed, attempt=attempt, trial=trial, evaluation=None)

    # Judge

    def _judge(self, key: str, branches: Sequence[Branch]) -> list[Branch]:
        """Have the candidates of `branches` judged, as many as the budget allows; returns those, with their
        evaluations. A technique that the device cannot judge is not tried again. `key` names the batch in the
        record."""
        evaluations = self._session.tell(key, [one.trial for one in branches]) if branches else []
        self._candidates |= {one.trial.candidate.code: one.trial.candidate for one in branches}
        pairs = list(zip(branches, evaluations, strict=True))
        for one, evaluation in pairs:
            if evaluation is not None and isinstance(evaluation.outcome, Unsupported):
                self._unsupported.add(one.trial.technique)
        return [replace(one, evaluation=e) for one, e in pairs if e is not None]

    def _advance(self, rollout: Rollout, judged: Sequence[Branch]) -> list[Step]:
        """Moves a rollout (one walk from candidate to candidate) to the best of the candidates that were
        `judged` for it, if that is faster, prepares a gain, or is slower by less than SIDEWAYS; otherwise it
        stays. Adds good candidates to the tree. Ends the rollout if it is near the floor (the least time that
        the GPU allows) or too many steps in a row gained nothing. Returns a step for each candidate that it
        tried."""
        mine = sorted((one for one in judged if one.rollout is rollout), key=lambda one: one.trial.id)
        if not mine:
            return []
        parent = rollout.node
        reached = [node for one in mine if (node := node_behind(one, parent)) is not None]
        best = max(reached, key=lambda node: node.worth, default=parent)
        gained = log(best.worth / parent.speedup)
        rollout.fruitless = 0 if gained > WORTH_TAKING else rollout.fruitless + 1
        if gained > -SIDEWAYS:
            rollout.node = best
        for node in reached:
            if node is rollout.node or node.speedup > parent.speedup * exp(WORTH_TAKING):
                self._nodes.setdefault(node.code, node)
        near = self._session.judging.near_floor(rollout.node.evaluation)
        rollout.ended = rollout.ended or near or rollout.fruitless >= self._search.patience
        return [step_of(one, parent, rollout.node) for one in mine]

    # Learn

    def _learn(self, iteration: int, before: int) -> None:
        """Update the knowledge base from an iteration's steps: those from index `before` of `steps` on. The
        candidates with the most surprising results are profiled first, so that they can be explained."""
        self._profile(self._surprising(self.steps[before:]))
        memory, log = self._session.memory, self._session.log
        fresh = memory.replay(self.steps[before:])
        if not fresh:
            return
        earlier = [*memory.earlier, *memory.replay(self.steps[:before])]
        update = log.once("update", str(iteration), lambda: self._lessons(fresh, earlier), lasting=True)
        memory.apply(iteration, update["changes"])
        log.learned()

    def _lessons(self, fresh: Sequence[Sample], earlier: Sequence[Sample]) -> dict[str, object]:
        """What the policy concludes from results, as JSON data to record: why they differ from predictions
        (`gaps`), and how the knowledge base should change (`changes`). `fresh` are this iteration's steps,
        `earlier` those before."""
        memory = self._session.memory
        now = memory.now()
        evaluation = self._policy.evaluate(fresh, earlier, memory.theta, memory.architecture)
        gaps = self._policy.explain(evaluation, now)
        changes = [*self._policy.update(evaluation, gaps, now), *memory.tidying(now)]
        return {
            "gaps": [gap.recorded for gap in gaps],
            "remark": evaluation.remark,
            "changes": [change.model_dump(mode="json") for change in changes],
        }

    def _remember_recipe(self, iteration: int) -> None:
        """Teach the knowledge base the techniques that led to the best candidate as one recipe, to be applied
        together, without those that neither gained nor prepared anything; nothing if fewer than two remain,
        or the last step was that recipe."""
        best, gains = self._best, []
        speedup = first = self._first.speedup
        for branch in best.path:
            assert branch.evaluation is not None and isinstance(branch.evaluation.outcome, CORRECT)
            now = branch.evaluation.outcome.speedup.estimate
            if log(now / speedup) > WORTH_TAKING or branch.payoff > 0:
                gains += [(technique, log(now / speedup)) for technique in branch.applied]
            speedup = now
        recipe = recipe_of(gains)
        if recipe is None or best.path[-1].trial.technique == str(recipe):
            return
        step = step_of(best.path[0], self._first, best)
        gained = Gained(log(best.speedup / first))
        about = {"technique": str(recipe), "result": gained, "child": best.code, "taken": True}
        self._session.memory.remember_recipe(str(iteration), step.model_copy(update=about))

    def _keep_exemplar(self, iteration: int) -> None:
        """Keep the best candidate as an example for other searches, in the state of the first kernel that was
        changed on the path to it; nothing if it is the first candidate, or hardly faster."""
        best = self._best
        timing = best.evaluation.timing
        if not best.path or timing is None or best.speedup < self._first.speedup * WORTH_SHOWING:
            return
        exemplar = Exemplar(
            source=best.attempt.candidate.source,
            techniques=best.applied,
            family=best.path[0].target.family,
            architecture=self._session.memory.architecture,
            task=self._session.task.name,
            reach=exp(reach(timing)),
            summary=self._policy.summary(best.attempt),
        )
        self._session.memory.exemplify(f"{iteration}/{best.code}", best.path[0].trial.state, exemplar)

    def _surprising(self, steps: Sequence[Step]) -> list[Candidate]:
        """The correct candidates of these steps whose log speedups differ most from the predictions: at most
        `explained`, and only by more than WORTH_SAYING."""
        off = {s.child: abs(s.log_speedup - log(s.predicted)) for s in steps if s.log_speedup is not None}
        most = sorted((child for child in off if off[child] > WORTH_SAYING), key=lambda child: -off[child])
        return [self._candidates[child] for child in most[: self._search.explained]]
