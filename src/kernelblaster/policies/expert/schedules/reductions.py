"""Union types of schedules of several families: all reductions, and all schedules with running sums whose
type can be chosen (`accumulate`)."""

from kernelblaster.policies.expert.schedules.columns import ColumnReduction
from kernelblaster.policies.expert.schedules.products import ThreadPerResult
from kernelblaster.policies.expert.schedules.rows import RowReduction
from kernelblaster.policies.expert.schedules.windows import WindowPatches

Reduction = RowReduction | ColumnReduction
Accumulating = Reduction | ThreadPerResult | WindowPatches
