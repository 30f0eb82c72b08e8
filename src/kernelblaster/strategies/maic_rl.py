"""MAIC-RL: rollouts side by side against a frozen knowledge base, which then learns from all of them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import exp, log
from random import Random

from kernelblaster.errors import KernelBlasterError
from kernelblaster.knowledge.content import Content, Scored
from kernelblaster.knowledge.events import Change
from kernelblaster.knowledge.recipes import parts, recipe_of
from kernelblaster.knowledge.select import thompson, weighted_choice
from kernelblaster.policies.policy import WORTH_SAYING, Attempt, Gap, Policy, Target
from kernelblaster.records import (
    Candidate,
    CompileFailed,
    Evaluation,
    Incorrect,
    Profile,
    Rejected,
    RuntimeFailed,
    Step,
    Task,
    Unsupported,
)
from kernelblaster.records.outcome import CORRECT
from kernelblaster.strategies.search import Search, Session, Trial, gain

WORTH_TAKING = 0.01  # log speedup: less is within the judge's resolution
SIDEWAYS = 0.03  # log slowdown that a rollout accepts where nothing pays: it may prepare what does
WORTH_TRYING = 0.25  # of the largest predicted gain in a batch: what promises less waits for its turn
BY_CHANCE = 0.1  # of the draws; their first technique is tried whatever it promises
FIRST_MOVE = 0.7  # chance of a technique's most promising move; else of the next, and so on
RETRIED = (CompileFailed, Incorrect, RuntimeFailed, Rejected)


@dataclass(frozen=True)
class Place:
    """Where a rollout stands: a correct candidate, and the tries that led there. `payoff` is the log
    speedup that the last technique is worth for what it prepares."""

    attempt: Attempt
    evaluation: Evaluation
    way: "tuple[Try, ...]" = ()
    payoff: float = 0.0

    @property
    def code(self) -> str:
        return self.attempt.candidate.code

    @property
    def speedup(self) -> float:
        assert isinstance(self.evaluation.outcome, CORRECT)
        return self.evaluation.outcome.speedup.estimate

    @property
    def applied(self) -> tuple[str, ...]:
        """The techniques on the way."""
        return tuple(part for one in self.way for part in one.applied)

    @property
    def worth(self) -> float:
        """The speedup, with what the last technique prepares."""
        return self.speedup * exp(self.payoff)


@dataclass
class Rollout:
    """One of those that go side by side. `fruitless` counts steps since the last gain."""

    number: int
    place: Place
    fruitless: int = 0
    ended: bool = False


@dataclass(frozen=True)
class Try:
    """A trial with what it came from. `promise` is the log speedup that it is expected to bring, failures
    and uncertainty included; `payoff` the part of it that only what it prepares will bring; `by_chance`
    says that it is tried whatever it promises. `evaluation` is None until it is judged."""

    rollout: Rollout
    target: Target
    attempt: Attempt
    trial: Trial
    promise: float
    payoff: float
    by_chance: bool
    evaluation: Evaluation | None = None

    @property
    def applied(self) -> tuple[str, ...]:
        return self.attempt.applied or (self.trial.technique,)


class MaicRl:
    """One search for one task."""

    def __init__(self, policy: Policy, session: Session, search: Search) -> None:
        self._policy = policy
        self._session = session
        self._search = search
        self._seed = str(search.seed)
        self._places: dict[str, Place] = {}
        self._candidates: dict[str, Candidate] = {}
        self._profiles: dict[str, Profile | None] = {}
        self._tried: set[str] = set()
        self._exhausted: set[str] = set()
        self._unsupported: set[str] = set()
        self._spent = False
        self.steps: list[Step] = []

    def run(self, task: Task) -> Place:
        """The best candidate that was found."""
        self._seed = f"{self._search.seed}/{task.name}"
        self._start(task)
        for iteration in range(self._search.iterations):
            theta = self._session.theta(iteration)
            before = len(self.steps)
            self._rollouts(iteration, theta)
            self._learn(iteration, theta, before)
            self._remember(iteration)
            if self._done or not self._open:
                break
        return self._best

    @property
    def _best(self) -> Place:
        return max(self._places.values(), key=lambda place: place.speedup)

    @property
    def _open(self) -> list[Place]:
        """Places from which something may be left to try."""
        return [place for place in self._places.values() if place.code not in self._exhausted]

    @property
    def _done(self) -> bool:
        return self._spent or self._session.good_enough(self._best.evaluation)

    def _start(self, task: Task) -> None:
        attempt = self._policy.initial(task)
        evaluation = self._session.first(attempt.candidate)
        if not isinstance(evaluation.outcome, CORRECT):
            reason = getattr(evaluation.outcome, "reason", "")
            raise KernelBlasterError(
                f"{task.name}: the first candidate is not correct ({evaluation.outcome.kind}: {reason})."
            )
        self._first = place = Place(attempt, evaluation)
        self._places[place.code] = place
        self._tried.add(place.code)

    def _rollouts(self, iteration: int, theta: Content) -> None:
        """One iteration: all rollouts make a step, then all the next one."""
        rollouts = [Rollout(n, self._origin(iteration, n)) for n in range(self._search.rollouts)]
        for number in range(self._search.steps):
            going = [rollout for rollout in rollouts if not rollout.ended]
            if not going or self._done:
                break
            self._step(going, theta, iteration, number)

    def _origin(self, iteration: int, rollout: int) -> Place:
        """Where a rollout begins: the first at the best place from which something is left to try, the
        others at any, the faster the likelier."""
        places = self._open
        if rollout == 0:
            return max(places, key=lambda place: place.speedup)
        random = Random(f"{self._seed}/{iteration}/{rollout}")
        return random.choices(places, [place.speedup for place in places])[0]

    def _step(self, going: Sequence[Rollout], theta: Content, iteration: int, number: int) -> None:
        self._profile([rollout.place.attempt.candidate for rollout in going])
        drawn = [found for one in going for found in self._tries(one, theta, iteration, number)]
        tries = self._worthwhile(drawn)
        key = f"{iteration}/{number}"
        judged = self._judged(key, tries)
        again = judged
        for retry in range(1, self._search.retries + 1):
            again = self._judged(f"{key}.{retry}", [r for one in again for r in self._retried(one, retry)])
            judged += again
        steps = [step for rollout in going for step in self._advance(rollout, judged)]
        if steps:
            self._session.learn(key, steps)
        self.steps += steps

    def _tries(self, rollout: Rollout, theta: Content, iteration: int, number: int) -> Iterator[Try]:
        """The techniques to try, drawn by their predicted gain. No rollout tries what another did."""
        place, key = rollout.place, f"{iteration}/{rollout.number}/{number}"
        targets = self._targets(rollout)
        drawn = self._session.once("choice", key, lambda: self._draw(rollout, targets, theta, key))
        for choice, option in enumerate(drawn["options"]):
            target = targets[drawn["target"]]
            moves = self._policy.moves(place.attempt, option["technique"], target)
            attempt = next((move for at, move in enumerate(moves) if at == option["move"]), None)
            if attempt is None:
                raise KernelBlasterError(
                    f"the policy does not write what this run recorded at {key}: it has changed since. "
                    "Start the run anew."
                )
            self._tried.add(attempt.candidate.code)
            named = (f"{key}/{choice}", drawn["state"], option["technique"], option["predicted"])
            trial = Trial(*named, attempt.candidate)
            by_chance = drawn["by_chance"] and choice == 0
            yield Try(rollout, target, attempt, trial, option["promise"], option["payoff"], by_chance)
        if not drawn["options"]:
            rollout.ended = True
            self._exhausted.add(place.code)

    def _worthwhile(self, drawn: Sequence[Try]) -> list[Try]:
        """The tries that are worth an evaluation beside the most promising of all rollouts, that one
        first; the others may be drawn again."""
        least = WORTH_TRYING * max((one.promise for one in drawn), default=0.0)
        kept = [one for one in drawn if one.by_chance or one.promise >= least]
        self._tried -= {one.attempt.candidate.code for one in drawn}
        self._tried |= {one.attempt.candidate.code for one in kept}
        return sorted(kept, key=lambda one: -one.promise)

    def _profile(self, candidates: Sequence[Candidate]) -> None:
        new = {c.code: c for c in candidates if c.code not in self._profiles}
        found = self._session.profile(list(new.values()), self._policy.depth) if new else []
        self._profiles |= dict(zip(new, found, strict=True))

    def _targets(self, rollout: Rollout) -> list[Target]:
        """The place's kernels, the most worthwhile first; after each step without a gain, the next."""
        place = rollout.place
        profile = self._profiles[place.code]
        if profile is None:
            return []
        found = list(self._policy.targets(place.attempt, profile, self._session.floor_bytes))
        turn = rollout.fruitless % len(found) if found else 0
        return found[turn:] + found[:turn]

    def _draw(
        self, rollout: Rollout, targets: Sequence[Target], theta: Content, key: str
    ) -> dict[str, object]:
        """Of the first target with something left to try: its state, and the techniques and moves. Those
        that lead to the same candidate are one choice, and all learn from it."""
        place, random = rollout.place, Random(f"{self._seed}/{key}")
        by_chance = random.random() < BY_CHANCE
        for number, target in enumerate(targets):
            proposals = self._proposals(place, target, f"{key}/{number}")
            state, found = self._session.options(theta, target, proposals, place.applied, place.evaluation)
            known = [o for o in found if self._unsupported.isdisjoint(parts(o.optimization.technique))]
            options: list[dict[str, object]] = []
            codes: set[str] = set()
            for scored in self._ordered(known, random, by_chance):
                technique = scored.optimization.technique
                move = self._move(place, technique, target, random)
                if move is not None:
                    at, attempt = move
                    codes.add(attempt.candidate.code)
                    options.append(
                        {
                            "technique": technique,
                            "move": at,
                            "predicted": exp(scored.prediction.mean),
                            "promise": scored.promise,
                            "payoff": scored.payoff,
                        }
                    )
                if len(codes) == self._search.choices:
                    break
            if options:
                about = {"state": state, "target": number, "by_chance": by_chance}
                return {**about, "options": options}
        return {"state": "", "options": []}

    def _proposals(self, place: Place, target: Target, key: str) -> list[str]:
        """What is on offer. It is recorded before anything is done with it: what is new goes to the knowledge
        base, and a policy that looks there would offer something else after a crash."""
        found = list(self._policy.proposals(place.attempt, target))
        return list(self._session.once("proposals", key, lambda: {"techniques": found})["techniques"])

    def _ordered(self, known: Sequence[Scored], random: Random, by_chance: bool) -> list[Scored]:
        """All of them in the order in which they are to be tried: now and then by chance alone, so that
        what is underestimated gets its turn."""
        if by_chance:
            return random.sample(known, len(known))
        if self._search.selection == "thompson":
            return thompson(known, len(known), random)
        return weighted_choice(known, len(known), random, self._search.sharpness)

    def _move(
        self, place: Place, technique: str, target: Target, random: Random
    ) -> tuple[int, Attempt] | None:
        """A move to a candidate that was not tried yet, with its number; None where all were."""
        first = None
        for number, attempt in enumerate(self._policy.moves(place.attempt, technique, target)):
            if attempt.candidate.code not in self._tried:
                first = first or (number, attempt)
                if random.random() < FIRST_MOVE:
                    return number, attempt
        return first

    def _judged(self, key: str, tries: Sequence[Try]) -> list[Try]:
        """Those of the tries that the budget allows, with their evaluations. A technique that the device
        cannot judge is not tried again."""
        found = self._session.evaluate(key, [one.trial for one in tries]) if tries else []
        self._spent = self._spent or None in found or self._session.evaluations_left == 0
        self._candidates |= {one.trial.candidate.code: one.trial.candidate for one in tries}
        for one, evaluation in zip(tries, found, strict=True):
            if evaluation is not None and isinstance(evaluation.outcome, Unsupported):
                self._unsupported.add(one.trial.technique)
        return [replace(one, evaluation=e) for one, e in zip(tries, found, strict=True) if e is not None]

    def _retried(self, failed: Try, retry: int) -> Iterator[Try]:
        """The same technique once more, where it failed in a way that another try may mend."""
        assert failed.evaluation is not None
        if not isinstance(failed.evaluation.outcome, RETRIED):
            return
        place, technique = failed.rollout.place, failed.trial.technique
        attempt = self._policy.retry(place.attempt, technique, failed.attempt, failed.evaluation)
        if attempt is None or attempt.candidate.code in self._tried:
            return
        self._tried.add(attempt.candidate.code)
        where = f"{failed.trial.place.split('.')[0]}.{retry}"
        trial = replace(failed.trial, place=where, candidate=attempt.candidate)
        yield replace(failed, attempt=attempt, trial=trial, evaluation=None)

    def _advance(self, rollout: Rollout, judged: Sequence[Try]) -> list[Step]:
        """Go on from the best of a rollout's tries, if it pays, prepares what does, or costs little."""
        mine = sorted((one for one in judged if one.rollout is rollout), key=lambda one: one.trial.place)
        if not mine:
            return []
        parent = rollout.place
        reached = [place for one in mine if (place := _reached(one, parent)) is not None]
        best = max(reached, key=lambda place: place.worth, default=parent)
        gained = log(best.worth / parent.speedup)
        rollout.fruitless = 0 if gained > WORTH_TAKING else rollout.fruitless + 1
        if gained > -SIDEWAYS:
            rollout.place = best
        for place in reached:
            if place is rollout.place or place.speedup > parent.speedup * exp(WORTH_TAKING):
                self._places.setdefault(place.code, place)
        near = self._session.good_enough(rollout.place.evaluation)
        rollout.ended = rollout.ended or near or rollout.fruitless >= self._search.patience
        return [_step_of(one, parent, rollout.place) for one in mine]

    def _learn(self, iteration: int, theta: Content, before: int) -> None:
        """Policy evaluation, gap analysis and parameter update. What surprised most is profiled before,
        so that there is something to explain it by."""
        self._profile(self._surprising(self.steps[before:]))
        fresh = self._session.replay(self.steps[before:])
        if not fresh:
            return
        earlier = [*self._session.earlier, *self._session.replay(self.steps[:before])]
        architecture = self._session.architecture

        def found(now: Content) -> tuple[Sequence[Gap], Sequence[Change]]:
            discrepancies = self._policy.evaluate(fresh, earlier, theta, architecture)
            gaps = self._policy.explain(discrepancies, now)
            return gaps, self._policy.update(gaps, now)

        self._session.update(iteration, found)

    def _remember(self, iteration: int) -> None:
        """The way to the best place as one recipe, without the steps that gained and prepared nothing."""
        best, gains = self._best, []
        speedup = first = self._first.speedup
        for one in best.way:
            assert one.evaluation is not None and isinstance(one.evaluation.outcome, CORRECT)
            now = one.evaluation.outcome.speedup.estimate
            if log(now / speedup) > WORTH_TAKING or one.payoff > 0:
                gains += [(part, log(now / speedup)) for part in one.applied]
            speedup = now
        recipe = recipe_of(gains)
        if recipe is None or best.way[-1].trial.technique == recipe:
            return
        start = best.way[0]
        step = _step_of(start, self._first, best)
        about = {"technique": recipe, "result": log(best.speedup / first), "child": best.code, "taken": True}
        self._session.remember(str(iteration), step.model_copy(update=about))

    def _surprising(self, steps: Sequence[Step]) -> list[Candidate]:
        """The valid results of steps that differ most from what was predicted."""
        off = {s.child: abs(s.result - log(s.predicted)) for s in steps if isinstance(s.result, float)}
        most = sorted((child for child in off if off[child] > WORTH_SAYING), key=lambda child: -off[child])
        return [self._candidates[child] for child in most[: self._search.explained]]


def _reached(one: Try, parent: Place) -> Place | None:
    """Where a try leads; None where it failed."""
    assert one.evaluation is not None
    if not isinstance(one.evaluation.outcome, CORRECT):
        return None
    return Place(one.attempt, one.evaluation, (*parent.way, one), one.payoff)


def _step_of(one: Try, parent: Place, next_place: Place) -> Step:
    trial, target = one.trial, one.target
    assert one.evaluation is not None
    return Step(
        place=trial.place,
        state=trial.state,
        technique=trial.technique,
        predicted=trial.predicted,
        result=gain(one.evaluation, parent.evaluation),
        taken=one.attempt is next_place.attempt,
        kernel=target.kernel,
        share=target.share,
        family=target.family,
        before=parent.applied,
        parent=parent.code,
        child=one.attempt.candidate.code,
    )
