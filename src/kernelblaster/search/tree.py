"""The tree of a search: its nodes are correct candidates, its branches the techniques tried from them, and
rollouts are walks through it."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp

from kernelblaster.policies.policy import Attempt
from kernelblaster.records import Evaluation, Step, Target
from kernelblaster.records.outcome import CORRECT
from kernelblaster.records.recipe import Recipe
from kernelblaster.records.step import compare
from kernelblaster.sessions.log import Trial


@dataclass(frozen=True)
class SearchNode:
    """A correct candidate in the search tree. `path` are the branches (techniques tried) that led to it from
    the first candidate; `payoff` is the log speedup that its last technique is worth because it prepares
    others."""

    attempt: Attempt
    evaluation: Evaluation
    path: "tuple[Branch, ...]" = ()
    payoff: float = 0.0

    @property
    def code(self) -> str:
        return self.attempt.candidate.code

    @property
    def speedup(self) -> float:
        """How many times as fast as the baseline this candidate is, as the judge estimates it."""
        assert isinstance(self.evaluation.outcome, CORRECT)
        return self.evaluation.outcome.speedup.estimate

    @property
    def applied(self) -> tuple[str, ...]:
        """The techniques applied on the path, in order; those of a recipe one by one."""
        return tuple(technique for branch in self.path for technique in branch.applied)

    @property
    def worth(self) -> float:
        """The speedup over the baseline, times what the last technique is worth in addition because it
        prepares others (exp of `payoff`)."""
        return self.speedup * exp(self.payoff)


@dataclass
class Rollout:
    """One walk through the search tree, which is at the candidate `node` now. `fruitless` counts its steps
    since the last gain; `ended`: it makes no more steps in this iteration."""

    number: int
    node: SearchNode
    fruitless: int = 0
    ended: bool = False


@dataclass(frozen=True)
class Branch:
    """A technique tried at a rollout's node. `target` is the kernel that it is applied to; `attempt` the
    candidate that the policy made by it; `trial` that candidate as it goes to the judge. `asked` is what the
    policy was asked to apply; if that is a recipe of which only a part could be applied, the trial names that
    part. `promise` is its expected log speedup, failures and uncertainty included; `payoff` the part of it
    that only comes with techniques that this one prepares. `certain`: it is tried whatever it promises,
    because it was drawn by chance or pinned by a person. `evaluation` is None until it is judged."""

    rollout: Rollout
    target: Target
    attempt: Attempt
    trial: Trial
    asked: str
    promise: float
    payoff: float
    certain: bool
    evaluation: Evaluation | None = None

    @property
    def applied(self) -> tuple[str, ...]:
        """The names of the techniques that this branch applies: the parts of a recipe, or the one
        technique."""
        return self.attempt.applied or (self.trial.technique,)


def done(asked: str, attempt: Attempt, before: Sequence[str]) -> str:
    """The name of the technique or recipe that `attempt` really applies: `asked`, what the policy was asked
    for, unless a part of that recipe did not apply; then the part that did (see `Recipe.done`). `before` are
    the techniques applied earlier."""
    recipe = Recipe.parse(asked)
    if recipe is None or not attempt.applied or recipe.beyond((*attempt.applied, *before)) == 0:
        return asked
    return recipe.done(attempt.applied, before)


def node_behind(branch: Branch, parent: SearchNode) -> SearchNode | None:
    """Makes a node of the search tree from a technique tried at `parent`, whose candidate has been judged;
    None if that is not correct."""
    assert branch.evaluation is not None
    if not isinstance(branch.evaluation.outcome, CORRECT):
        return None
    return SearchNode(branch.attempt, branch.evaluation, (*parent.path, branch), branch.payoff)


def step_of(branch: Branch, parent: SearchNode, next_node: SearchNode) -> Step:
    """The record of a judged branch at `parent`, as a Step. It is `taken` if the branch's candidate is the
    one of `next_node`, where the rollout is now."""
    trial, target = branch.trial, branch.target
    assert branch.evaluation is not None
    return Step(
        id=trial.id,
        state=trial.state,
        technique=trial.technique,
        predicted=trial.predicted,
        result=compare(branch.evaluation, parent.evaluation),
        taken=branch.attempt is next_node.attempt,
        kernel=target.kernel,
        share=target.share,
        family=target.family,
        before=parent.applied,
        parent=parent.code,
        child=branch.attempt.candidate.code,
    )
