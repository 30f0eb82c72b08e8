"""Names within kernels: those of a module's tensors, unless the emitted code has them for itself."""

import re

TAKEN = frozenset(
    (
        *("all", "at", "base", "batch", "best", "block", "block_column", "block_columns", "block_row"),
        *("begin", "block_rows", "blocks", "column", "count", "e", "each", "end", "first", "group"),
        *("group_rows", "head", "i", "inner", "inside", "inverse", "j", "k", "kept", "lane", "largest"),
        *("last", "line", "members", "memory", "more", "next", "packs", "part", "parts", "piece"),
        *("pipeline", "place", "processors", "r", "rank", "rest", "row", "row_length", "row_packs"),
        *("row_scale", "row_start", "scaled", "share", "slab", "slabs", "spread", "stage", "step"),
        *("stream", "sums", "sure", "tail", "take", "term", "thread", "tile", "tile_count", "tiles"),
        *("to", "total", "turn", "value", "warp"),
    )
)
LOOPS = re.compile(r"[ijr]\d+")


def inner_name(name: str) -> str:
    """What a tensor or a number of the launch function is called in kernels."""
    return f"{name}_given" if name in TAKEN or LOOPS.fullmatch(name) else name
