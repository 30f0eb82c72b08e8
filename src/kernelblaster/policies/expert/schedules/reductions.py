"""Two type aliases, each a union of schedules (layouts on the GPU): all schedules of reductions, and all
schedules with a field `accumulate`, the type of their running sums."""

from kernelblaster.policies.expert.schedules.columns import ColumnReduction
from kernelblaster.policies.expert.schedules.products import ThreadPerResult
from kernelblaster.policies.expert.schedules.rows import RowReduction
from kernelblaster.policies.expert.schedules.windows import WindowPatches

Reduction = RowReduction | ColumnReduction
Accumulating = Reduction | ThreadPerResult | WindowPatches
