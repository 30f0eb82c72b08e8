"""Unrolling: lets innermost loops execute several iterations at a time, so that their loads overlap."""

from collections.abc import Iterator

from tree_sitter import Node

from kernelblaster.policies.rewrites.own_source import OwnSource
from kernelblaster.tasks.cuda_source import Function, inserted, text, walk

TIMES = (4, 8, 2, 16)


def apply(source: OwnSource, kernel: Function) -> Iterator[OwnSource]:
    """Yields one source for each of the factors 4, 8, 2 and 16 (TIMES), with `#pragma unroll` and that factor
    before all suitable loops of the kernel. If there are several such loops, also yields a source for each
    with that loop alone unrolled by 4. Suitable are innermost `for` loops without a pragma and without a
    barrier; nothing if there are none."""
    loops = [node for node in walk(kernel.body, "for_statement") if _is_plain(source, node)]
    for times in TIMES:
        if loops:
            yield source.edited([_pragma(source, loop, times) for loop in loops])
    if len(loops) > 1:
        for loop in loops:
            yield source.edited([_pragma(source, loop, TIMES[0])])


def _is_plain(source: OwnSource, loop: Node) -> bool:
    """Whether a loop can be unrolled by a pragma: it is innermost, has no pragma before it and no barrier
    inside."""
    inner = [node for node in walk(loop, "for_statement", "while_statement") if node.id != loop.id]
    before = source.tree.bytes[: loop.start_byte].rstrip().rpartition(b"\n")[2]
    return not inner and b"#pragma" not in before and "__syncthreads" not in text(loop)


def _pragma(source: OwnSource, loop: Node, times: int) -> tuple[int, int, str]:
    """The edit that inserts `#pragma unroll` with the factor `times` before `loop`, on a line of its own."""
    line = source.tree.bytes[: loop.start_byte].rpartition(b"\n")[2]
    blank = line.strip() == b""
    indent = line.decode() if blank else ""
    return inserted(loop.start_byte, f"{'' if blank else chr(10)}#pragma unroll {times}\n{indent}")
