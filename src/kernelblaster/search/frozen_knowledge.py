"""`FrozenKnowledge`: a knowledge base that never learns, for strategies that are to search without memory."""

from collections.abc import Sequence

from kernelblaster.knowledge.event_rows import Fresh
from kernelblaster.knowledge.events import Change, OptimizationAdded, Provenance, StateAdded
from kernelblaster.knowledge.knowledge_base import KnowledgeBase
from kernelblaster.knowledge.versioned_content import NOBODY


class FrozenKnowledge(KnowledgeBase):
    """A knowledge base whose predictions never change. New performance states, techniques and recipes can be
    added, so that a search can refer to them. Results of attempts, and all that is learned from them, are
    dropped."""

    def record(self, changes: Sequence[Change], provenance: Provenance = NOBODY) -> int:
        """Records those of `changes` that add a performance state, a technique or a recipe, and drops all
        others, since they would change predictions. Returns the new version. `provenance` says which search
        made the changes."""
        names = [change for change in changes if isinstance(change, StateAdded | OptimizationAdded)]
        return super().record(names, provenance)

    def take_over(self, known: Sequence[Fresh]) -> int:
        """Ignores the changes `known`, which a run has learned, and returns 0, the number of changes
        recorded."""
        return 0
