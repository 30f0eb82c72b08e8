"""`FrozenKnowledge`: a knowledge base that never learns, for strategies without a memory."""

from collections.abc import Sequence

from kernelblaster.knowledge.event_rows import Fresh
from kernelblaster.knowledge.events import Change, OptimizationAdded, Provenance, StateAdded
from kernelblaster.knowledge.knowledge_base import KnowledgeBase
from kernelblaster.knowledge.versioned_content import NOBODY
from kernelblaster.records.recipe import is_recipe


class FrozenKnowledge(KnowledgeBase):
    """A knowledge base that accepts new states and techniques, so that a search can refer to them, but drops
    outcomes of techniques, notes and recipes: predictions never change."""

    def record(self, changes: Sequence[Change], provenance: Provenance = NOBODY) -> int:
        """Records those among `changes` that only make a state or technique known, and drops what would
        change predictions. Returns the new version."""
        return super().record([change for change in changes if _is_name(change)], provenance)

    def take_over(self, known: Sequence[Fresh]) -> int:
        """Ignores events of another knowledge base, since this one does not learn. Returns 0, the number
        taken over."""
        return 0


def _is_name(change: Change) -> bool:
    """Whether a change only makes a name known: it adds a state, or a technique that is no recipe (several
    techniques that pay together)."""
    if isinstance(change, OptimizationAdded):
        return not is_recipe(change.optimization.technique)
    return isinstance(change, StateAdded)
