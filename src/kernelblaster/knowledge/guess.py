"""What to expect of a technique in a state where nobody tried it: what it does in states like it."""

from collections.abc import Sequence

from kernelblaster.knowledge.content import Content
from kernelblaster.knowledge.matching import distance
from kernelblaster.records import State

UNKNOWN = 0.1
"""The log speedup that is expected of a technique that nothing is known of..."""
GUESS_WEIGHT = 0.5
"""...and how many observations that, or a guess, is worth."""
NEAR = 0.25
"""A state at this distance counts half as much as an equal one."""


def guesses(
    content: Content, state: State, techniques: Sequence[str], architecture: str | None
) -> dict[str, float]:
    """For each technique a log speedup: the mean of what is expected of it in all states, nearer and
    better known ones counting more, and of knowing nothing."""
    totals = dict.fromkeys(techniques, UNKNOWN * GUESS_WEIGHT)
    weights = dict.fromkeys(techniques, GUESS_WEIGHT)
    for living in content.living:
        nearness = NEAR / (NEAR + distance(state, living.state))
        known = content.entries.get(living.state.name, {})
        for technique in techniques:
            if technique in known:
                prediction = known[technique].prediction(architecture)
                totals[technique] += nearness * prediction.weight * prediction.mean
                weights[technique] += nearness * prediction.weight
    return {technique: totals[technique] / weights[technique] for technique in techniques}
