"""The tree of a search. Its nodes are correct candidates, its branches are techniques tried at a node, and
rollouts are walks from node to node."""

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
    """A correct candidate in the search tree: `attempt`, as the policy wrote it, and its `evaluation`. `path`
    has the branches (techniques tried) that led to it from the first candidate. `payoff` is what the last of
    these techniques is worth beyond its own gain, because others gain more after it, as the natural logarithm
    of a speedup."""

    attempt: Attempt
    evaluation: Evaluation
    path: "tuple[Branch, ...]" = ()
    payoff: float = 0.0

    @property
    def code(self) -> str:
        return self.attempt.candidate.code

    @property
    def speedup(self) -> float:
        """The judge's estimate of this candidate's speedup: the baseline's time divided by its own."""
        assert isinstance(self.evaluation.outcome, CORRECT)
        return self.evaluation.outcome.speedup.estimate

    @property
    def applied(self) -> tuple[str, ...]:
        """The techniques that led from the first candidate to this one, in order. A recipe is listed as its
        techniques."""
        return tuple(technique for branch in self.path for technique in branch.applied)

    @property
    def worth(self) -> float:
        """The speedup over the baseline times exp(`payoff`). Thus a candidate counts as faster if its last
        technique prepares others, which gain more after it."""
        return self.speedup * exp(self.payoff)


@dataclass
class Rollout:
    """One walk through the search tree, now at `node`. `number` is its number within the iteration.
    `fruitless` counts its steps since the last gain. `ended`: it makes no more steps in this iteration."""

    number: int
    node: SearchNode
    fruitless: int = 0
    ended: bool = False


@dataclass(frozen=True)
class Branch:
    """An attempt at a technique, made at the node where a `rollout` stands. `target` is the kernel to which
    it is applied. `attempt` is the resulting candidate, as the policy wrote it, and `trial` the same
    candidate as it is sent to the judge. `asked` is the technique or recipe that the policy was asked for. If
    only a part of a recipe could be applied, `trial` names that part. `promise` is the log speedup expected
    of the technique, failures and uncertainty included; the part `payoff` of it comes only from other
    techniques that gain more afterwards. `certain`: the attempt is made whatever its promise, because it was
    drawn by chance or pinned by a person. `evaluation` is None until it is judged."""

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
        """The names of the techniques that this branch applies: those of a recipe, or the single
        technique."""
        return self.attempt.applied or (self.trial.technique,)


def done(asked: str, attempt: Attempt, before: Sequence[str]) -> str:
    """Returns the name of the technique or recipe that `attempt` applies. Usually that is `asked`, for which
    the policy was asked. If only a part of a recipe could be applied, it is the recipe of that part (see
    `Recipe.done`). `before` are the techniques that had been applied earlier."""
    recipe = Recipe.parse(asked)
    if recipe is None or not attempt.applied or recipe.beyond((*attempt.applied, *before)) == 0:
        return asked
    return recipe.done(attempt.applied, before)


def node_behind(branch: Branch, parent: SearchNode) -> SearchNode | None:
    """Returns the node of the search tree to which a judged branch leads from the node `parent`; None if the
    branch's candidate is not correct."""
    assert branch.evaluation is not None
    if not isinstance(branch.evaluation.outcome, CORRECT):
        return None
    return SearchNode(branch.attempt, branch.evaluation, (*parent.path, branch), branch.payoff)


def step_of(branch: Branch, parent: SearchNode, next_node: SearchNode) -> Step:
    """Returns the record of a branch that was tried at the node `parent` and judged: its technique, the
    predicted speedup, and what the candidate gained over that of `parent` (or how it failed). The step is
    `taken` if its candidate is that of `next_node`, where the rollout stands now."""
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
