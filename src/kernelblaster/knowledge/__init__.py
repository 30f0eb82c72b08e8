"""The knowledge base: performance states of kernels, optimization techniques, and the evidence: the measured
results of each technique in each state."""

from kernelblaster.knowledge.consolidate import KnowledgeLimits
from kernelblaster.knowledge.content import Content, OptimizationEntry, Scored, StateEntry
from kernelblaster.knowledge.differences import Difference, difference
from kernelblaster.knowledge.document import export_document, import_changes
from kernelblaster.knowledge.events import Failure, KnowledgeEvent, Provenance, Result
from kernelblaster.knowledge.knowledge_base import KnowledgeBase
from kernelblaster.knowledge.matching import NearState, distance, nearest
from kernelblaster.knowledge.posterior import Prediction
from kernelblaster.knowledge.seed import plant
from kernelblaster.knowledge.select import thompson, weighted_choice

__all__ = [
    "Content",
    "Difference",
    "Failure",
    "KnowledgeBase",
    "KnowledgeEvent",
    "KnowledgeLimits",
    "NearState",
    "OptimizationEntry",
    "Prediction",
    "Provenance",
    "Result",
    "Scored",
    "StateEntry",
    "difference",
    "distance",
    "export_document",
    "import_changes",
    "nearest",
    "plant",
    "thompson",
    "weighted_choice",
]
