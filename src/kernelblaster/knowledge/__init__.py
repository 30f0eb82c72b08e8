"""What was learned about kernels, kept: states, techniques, what they gained, and where."""

from kernelblaster.knowledge.consolidate import Limits
from kernelblaster.knowledge.content import Content, OptimizationEntry, Scored, StateEntry
from kernelblaster.knowledge.differences import Difference, difference
from kernelblaster.knowledge.document import export_document, import_changes
from kernelblaster.knowledge.events import Event, Failure, Provenance, Result
from kernelblaster.knowledge.knowledge_base import KnowledgeBase
from kernelblaster.knowledge.matching import Near, distance, nearest
from kernelblaster.knowledge.posterior import Prediction
from kernelblaster.knowledge.seed import plant
from kernelblaster.knowledge.select import thompson, weighted_choice

__all__ = [
    "Content",
    "Difference",
    "Event",
    "Failure",
    "KnowledgeBase",
    "Limits",
    "Near",
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
