"""`FrozenKnowledge`: a knowledge base that never learns, for strategies that are to search without memory."""

from collections.abc import Sequence

from kernelblaster.knowledge.event_rows import Fresh
from kernelblaster.knowledge.events import Change, OptimizationAdded, Provenance, StateAdded
from kernelblaster.knowledge.knowledge_base import KnowledgeBase
from kernelblaster.knowledge.versioned_content import NOBODY
from kernelblaster.records.recipe import is_recipe


class FrozenKnowledge(KnowledgeBase):
    """A knowledge base whose predictions never change. New states and techniques can be added, so that a
    search can refer to them. Results of attempts, notes and recipes are dropped."""

    def record(self, changes: Sequence[Change], provenance: Provenance = NOBODY) -> int:
        """Records those of the changes that add a state or a technique, and drops all others (also recipes),
        since they would change predictions. Returns the new version."""
        return super().record([change for change in changes if _is_name(change)], provenance)

    def take_over(self, known: Sequence[Fresh]) -> int:
        """Ignores these changes, which were recorded elsewhere, and returns 0, the number recorded."""
        return 0


def _is_name(change: Change) -> bool:
    """Whether a change only makes a name known: it adds a state, or a technique that is no recipe (several
    techniques that pay together)."""
    if isinstance(change, OptimizationAdded):
        return not is_recipe(change.optimization.technique)
    return isinstance(change, StateAdded)
