"""Names for groups of schedules of several families."""

from kernelblaster.policies.expert.schedules.columns import ColumnReduction
from kernelblaster.policies.expert.schedules.products import ThreadPerResult
from kernelblaster.policies.expert.schedules.rows import RowReduction

Reduction = RowReduction | ColumnReduction
Accumulating = Reduction | ThreadPerResult
