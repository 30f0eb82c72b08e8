"""Launch bounds: declares by `__launch_bounds__` how many threads a block has, and how many blocks should fit
on an SM, so that the compiler limits registers accordingly."""

from collections.abc import Iterator
from math import prod

from kernelblaster.policies.rewrites.launch_shape import block_of
from kernelblaster.policies.rewrites.own_source import OwnSource
from kernelblaster.tasks.cuda_source import Function, inserted

RESIDENT = 1536  # threads per SM that the second bound asks for


def apply(source: OwnSource, kernel: Function) -> Iterator[OwnSource]:
    """Yields two sources. The launch bounds of the first give the number of threads of a block; those of the
    second also ask for several blocks on an SM at once: 1536 (RESIDENT) divided by the number of threads, at
    least one. Nothing if the kernel has launch bounds already, is never launched, or is launched with a block
    size that is not constant."""
    header = source.tree.bytes[kernel.node.start_byte : kernel.body.start_byte]
    declarator = kernel.node.child_by_field_name("declarator")
    blocks = [block_of(source.tree, launch) for launch in source.tree.launches_of(kernel.name)]
    if b"__launch_bounds__" in header or declarator is None or not blocks or None in blocks:
        return
    threads = max(prod(constant.value for constant in block) for block in blocks if block)
    for bound in (f"{threads}", f"{threads}, {max(1, RESIDENT // threads)}"):
        yield source.edited([inserted(declarator.start_byte, f"__launch_bounds__({bound}) ")])
