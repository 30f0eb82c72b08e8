"""The order in which the techniques of a recipe (several applied in one step) are applied. First come
techniques that change whole plans, because the kernels that they make are untuned. Then come techniques that
divide the work among blocks and threads in another way, and last techniques that only tune."""

from collections.abc import Iterable

ORDER = (
    "algebraic_simplification",
    "kernel_fusion",
    "online_attention",
    "shared_memory_tiling",
    "register_tiling",
    "tensor_core_utilization",
    "split_operand_tensor_cores",
    "interleaved_phases",
    "implicit_matrix_product",
    "tf32_operands",
    "scaled_half_operands",
    "pipeline_depth",
    "window_register_blocking",
    "split_k",
    "warpgroup_matrix_multiply",
    "double_buffering",
    "asynchronous_copy",
    "block_rasterization",
    "parallel_scan",
    "persistent_recurrence",
    "warp_shuffle_reduction",
    "online_reduction",
    "two_level_reduction",
    "vectorized_memory_access",
    "rows_in_registers",
    "rows_across_blocks",
    "transposed_staging",
    "thread_coarsening",
    "unrolling",
    "block_shape",
    "index_simplification",
    "cache_hints",
    "fast_math",
)


def in_order(techniques: Iterable[str]) -> list[str]:
    """Sorts names of techniques into the order in which they are to be applied (ORDER). Names that are not in
    that list come last, in the order given."""
    ranks = {technique: number for number, technique in enumerate(ORDER)}
    return sorted(techniques, key=lambda technique: ranks.get(technique, len(ranks)))
