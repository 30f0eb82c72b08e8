"""Read-only loads: marks pointers without aliases as `__restrict__`, and as `const` if the kernel only reads
through them. Loads may then use the read-only cache and be reordered. A second variant loads by `__ldg`."""

import re
from collections.abc import Iterator

from kernelblaster.policies.rewrites.elementwise import subscripts
from kernelblaster.policies.rewrites.own_source import OwnSource
from kernelblaster.policies.rewrites.writes import is_written, reads
from kernelblaster.tasks.cuda_source import Edit, Function, Parameter, bare, inserted, replaced, text, walk

LOADED = {
    "float",
    "double",
    "int",
    "unsigned",
    "int64_t",
    "int32_t",
    "uint32_t",
    "__half",
    "long long",
    "float4",
}


def apply(source: OwnSource, kernel: Function) -> Iterator[OwnSource]:
    """Yields up to two sources: one with `__restrict__` and `const` on the kernel's pointers, and one that in
    addition reads by `__ldg` wherever the kernel only reads through a pointer. Nothing if two pointer
    arguments of a launch may be the same buffer."""
    if not _apart(source, kernel):
        return
    edits = [edit for p in kernel.pointers for edit in _qualified(source, kernel, p)]
    if edits:
        yield source.edited(edits)
    loads = [
        replaced(access, f"__ldg(&{source.tree.original(access)})")
        for p in kernel.pointers
        if p.kind in LOADED and not is_written(kernel, p.name)
        for access in reads(kernel, p.name)
    ]
    if loads:
        yield source.edited([*edits, *loads])


def _apart(source: OwnSource, kernel: Function) -> bool:
    """Whether the kernel has pointers and no launch passes the same buffer twice. Two arguments are taken for
    the same if they begin with the same name, as `x` and `x + n` do."""
    positions = [position for position, p in enumerate(kernel.parameters) if p.pointer]
    for launch in source.tree.launches_of(kernel.name):
        given = [
            text(bare(launch.arguments[position]))
            for position in positions
            if position < len(launch.arguments)
        ]
        roots = [re.match(r"\w*", one) for one in given]
        if len({root[0] for root in roots if root}) < len(positions):
            return False
    return bool(positions)


def _qualified(source: OwnSource, kernel: Function, parameter: Parameter) -> Iterator[Edit]:
    """Edits that add `__restrict__` to a pointer parameter, and `const` if the kernel only reads through
    it."""
    written = source.tree.original(parameter.node)
    name = next((n for n in walk(parameter.node, "identifier") if text(n) == parameter.name), None)
    if name is None or "[" in written or written.count("*") != 1:
        return
    if "__restrict" not in written:
        yield inserted(name.start_byte, "__restrict__ ")
    if (
        not parameter.const
        and not is_written(kernel, parameter.name)
        and any(subscripts(kernel.body, parameter.name))
    ):
        yield inserted(parameter.node.start_byte, "const ")
