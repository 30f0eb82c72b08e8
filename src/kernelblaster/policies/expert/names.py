"""Names within kernels: those of a module's tensors, unless the emitted code has them for itself.

A test parses kernels of every schedule and fails where they declare a name that is not taken here.
"""

import re

TAKEN = frozenset(
    (
        *("all", "all_columns", "all_rows", "at", "base", "batch", "begin", "best", "block"),
        *("block_column", "block_columns", "block_row", "block_rows", "blocks", "blocks_across"),
        *("blocks_down", "buffer", "c", "column", "copy", "count", "e", "each", "end", "first"),
        *("first_column", "first_row", "first_tile", "group", "group_rows", "head", "i", "in_warp"),
        *("inner", "inside", "inverse", "j", "k", "kept", "lane", "largest", "last", "line"),
        *("members", "memory", "more", "next", "others", "packed", "packs", "part", "parts"),
        *("piece", "pipeline", "place", "processors", "r", "rank", "rest", "row", "row_length"),
        *("row_packs", "row_scale", "row_start", "scaled", "share", "slab", "slabs", "spread"),
        *("stage", "start", "step", "stream", "sums", "sure", "tail", "take", "term", "thread"),
        *("thread_column", "thread_row", "tile", "tile_count", "tiles", "to", "total", "totals"),
        *("turn", "value", "warp", "BATCH", "BLOCKS", "HELD", "KEPT", "LANES", "LINE", "REST"),
        *("SIZED", "THREADS", "WARPS", "WIDTH"),
    )
)
LOOPS = re.compile(r"[ijrw]\d+")
MADE = re.compile(  # of the names of tensors, sides and stages
    r"(any|copy|fetch|left|one|place|read|right|stash)_\w+"
    r"|\w+_(at\d*|first|fixed\d+|found|head|held|here|kept|near|packs?|so_far|tail|tile|value)"
)


def inner_name(name: str) -> str:
    """What a tensor or a number of the launch function is called in kernels."""
    return f"{name}_given" if is_taken(name) else name


def is_taken(name: str) -> bool:
    """Whether emitted kernels may declare a variable of this name."""
    return name in TAKEN or any(pattern.fullmatch(name) for pattern in (LOOPS, MADE))
