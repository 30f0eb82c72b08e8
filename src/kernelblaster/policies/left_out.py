"""Tells which known techniques cannot help a kernel that somebody else wrote: those that do not fit its task
or its source, and those that are applied in the source already."""

import re
from collections.abc import Collection
from dataclasses import dataclass

from kernelblaster.policies.llm.families import may_have, may_use
from kernelblaster.policies.llm.source import parts_of, used_by
from kernelblaster.records import Task
from kernelblaster.records.recipe import is_recipe, techniques_of

COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
SEVERAL_LAUNCHES = frozenset({"kernel_fusion", "launch_merging"})
PRODUCTS = ("attention", "convolution", "matrix_product", "recurrence")
FOR_PRODUCTS = frozenset(
    {
        "register_tiling",
        "split_k",
        "split_operand_tensor_cores",
        "tensor_core_utilization",
        "warpgroup_matrix_multiply",
    }
)
SHARED = r"__shared__"
ASYNCHRONOUS = r"cp\.async|memcpy_async"
TENSOR_CORES = r"\bwmma\b|\bmma\.|\bmma_sync|\bwgmma\b"
# What a kernel has that uses the technique.
SIGNS = {
    "asynchronous_copy": ASYNCHRONOUS,
    "cache_hints": r"__(?:ld|st)(?:cg|cs|ca|lu|cv|g|wb|wt)\s*\(|createpolicy|no_allocate|evict_",
    "fast_math": r"__(?:exp|exp10|log|log2|log10|sin|cos|tan|pow)f\s*\(|__fdividef|\.approx",
    "grid_stride": r"\+=[^;]*\bgridDim\b",
    "rows_across_blocks": r"this_cluster|cluster_group|__cluster_dims__|\bmapa\b",
    "tensor_core_utilization": TENSOR_CORES,
    "unrolling": r"#\s*pragma\s+unroll",
    "vectorized_memory_access": r"\b(?:u?(?:int|char|short|long|longlong)|float|double)[24]\s*(?:const\s*)?\*"
    r"|(?:half|bfloat16)2\s*(?:const\s*)?\*|\.v[24]\.",
    "warp_shuffle_reduction": r"__shfl_\w*sync|__reduce_\w+_sync|\bcg::reduce",
    "warpgroup_matrix_multiply": r"\bwgmma\b",
}
# What a kernel must have for the technique to change anything.
NEEDS = {
    "asynchronous_copy": SHARED,
    "bank_conflict_padding": SHARED,
    "barrier_reduction": r"__sync|\.sync\b|\bbar\.|barrier",
    "double_buffering": SHARED,
    "fast_math": r"/|\b(?:exp|log|sin|cos|tan|pow|erf|r?sqrt|cbrt)\w*\s*\(",
    "pipeline_depth": ASYNCHRONOUS,
    "predicated_branches": r"\bif\b",
    "privatized_accumulation": r"\batomic|\bred\.",
    "scaled_half_operands": TENSOR_CORES,
    "swizzled_shared_memory": SHARED,
    "tf32_operands": TENSOR_CORES,
    "unrolling": r"\bfor\b|\bwhile\b",
    "warp_shuffle_reduction": SHARED,
}


@dataclass(frozen=True)
class KernelFacts:
    """What the reasons against techniques depend on, for one kernel: its `name` in the `source` (CUDA), the
    `task`, how many kernels a call `launches`, and the names of the techniques that were `applied` on the way
    to this source."""

    task: Task
    source: str
    name: str
    launches: int
    applied: Collection[str] = ()

    def why_not(self, technique: str) -> str | None:
        """Returns why a technique (or a recipe, several of them) is of no use for the kernel, in a few words;
        None if it may be of use. A technique that this module has no rule for is of no use only if it was
        applied already."""
        if is_recipe(technique):
            parts = techniques_of(technique)
            unfit = next((why for part in parts if (why := self._unfit(part))), None)
            return unfit or ("in the source already" if all(map(self._has, parts)) else None)
        if technique in self._applied:
            return "applied already"
        return self._unfit(technique) or self._missing(technique)

    @property
    def _applied(self) -> set[str]:
        return {part for name in self.applied for part in (name, *techniques_of(name))}

    def _unfit(self, technique: str) -> str | None:
        foreign = technique in FOR_PRODUCTS and not may_have(self.task, PRODUCTS)
        if foreign or not may_use(self.task, technique):
            return "the task has nothing of the kind"
        if technique in SEVERAL_LAUNCHES and self.launches < 2:
            return "there is one launch only"
        return None

    def _missing(self, technique: str) -> str | None:
        if self._has(technique):
            return "in the source already"
        needed = NEEDS.get(technique)
        if needed is not None and not re.search(needed, self._text):
            return "the kernel has nothing that it could change"
        return None

    def _has(self, technique: str) -> bool:
        sign = SIGNS.get(technique)
        return technique in self._applied or (sign is not None and bool(re.search(sign, self._text)))

    @property
    def _text(self) -> str:
        """The kernel and all that it calls, without comments; the whole source if it does not define a kernel
        of this name, as where a template or a macro makes it."""
        parts = parts_of(self.source)
        used = used_by(parts, {self.name})
        text = "".join(part.text for part in parts if part.name in used)
        return COMMENT.sub(" ", text if any(part.name == self.name for part in parts) else self.source)
