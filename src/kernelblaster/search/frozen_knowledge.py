"""A knowledge base that never learns, for strategies without a memory."""

from collections.abc import Sequence

from kernelblaster.knowledge.events import Change, OptimizationAdded, Provenance, StateAdded
from kernelblaster.knowledge.knowledge_base import NOBODY, Fresh, KnowledgeBase
from kernelblaster.knowledge.recipes import is_recipe


class FrozenKnowledge(KnowledgeBase):
    """A knowledge base that accepts new states and techniques, so that a search can refer to them, but
    drops evidence, notes and recipes: predictions never change."""

    def record(self, changes: Sequence[Change], provenance: Provenance = NOBODY) -> int:
        return super().record([change for change in changes if _is_name(change)], provenance)

    def take_over(self, known: Sequence[Fresh]) -> int:
        return 0


def _is_name(change: Change) -> bool:
    if isinstance(change, OptimizationAdded):
        return not is_recipe(change.optimization.technique)
    return isinstance(change, StateAdded)
