"""Retrieval: which known state a kernel's state stands for."""

from kernelblaster.knowledge.content import Content
from kernelblaster.knowledge.matching import MATCH, nearest
from kernelblaster.records import State


def known_state(content: Content, state: State, within: float = MATCH) -> str | None:
    """The name of the known state that this one stands for: the one of the same name (or the state that it
    was merged into), else the nearest within the distance `within` (see `distance`). None if there is
    none."""
    if state.name in content.states:
        return content.resolve(state.name)
    near = nearest(state, [entry.state for entry in content.living])
    return near.state.name if near is not None and near.distance <= within else None
