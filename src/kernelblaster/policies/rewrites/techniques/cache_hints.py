"""Cache hints: marks stores and loads as streaming (`__stcs`, `__ldcs`), so that they do not displace data
from the caches that is used again."""

from collections.abc import Iterator

from kernelblaster.policies.rewrites.own_source import OwnSource
from kernelblaster.policies.rewrites.writes import is_written, reads, stores
from kernelblaster.tasks.cuda_source import Edit, Function, replaced

KINDS = {"float", "double", "int", "unsigned", "int32_t", "uint32_t", "__half", "float2", "float4"}


def apply(source: OwnSource, kernel: Function) -> Iterator[OwnSource]:
    """Yields up to three sources: one with streaming stores in the kernel, one with streaming loads through
    the pointers that the kernel only reads, and one with both. Nothing if there is no such access to elements
    of a known type (KINDS)."""
    pointers = [p for p in kernel.pointers if p.kind in KINDS]
    original = source.tree.original
    stored: list[Edit] = []
    for parameter in pointers:
        for statement, access, value in stores(kernel, parameter.name):
            if parameter.name not in original(value):
                stored.append(replaced(statement, f"__stcs(&{original(access)}, {original(value)});"))
    inside = [(begin, end) for begin, end, _ in stored]
    loaded = [
        replaced(access, f"__ldcs(&{original(access)})")
        for p in pointers
        if not is_written(kernel, p.name)
        for access in reads(kernel, p.name)
        if not any(begin <= access.start_byte < end for begin, end in inside)
    ]
    if stored:
        yield source.edited(stored)
    if loaded:
        yield source.edited(loaded)
    if stored and loaded:
        yield source.edited([*stored, *loaded])
