"""Block shape: gives a kernel's blocks another number of threads, or another two-dimensional shape.

If the source names the number, the name's definition is changed. If the number is written out, its other
occurrences in the launch function and in the kernel are changed too, and so are numbers derived from it (255
from 256, and half of it)."""

import re
from collections.abc import Iterator

from kernelblaster.policies.rewrites.elementwise import elementwise
from kernelblaster.policies.rewrites.launch_shape import Constant, block_of, numbers
from kernelblaster.policies.rewrites.own_source import OwnSource
from kernelblaster.tasks.cuda_source import Edit, Function, LaunchSyntax, dimensions, replaced, text, walk

THREADS = (128, 512, 256, 64, 1024, 32)
FEW = (64, 32, 128, 512)  # for threads that run a whole loop each: more blocks, on more SMs
SHAPES = ((32, 8), (32, 4), (32, 16), (64, 4), (16, 16), (128, 2), (32, 32), (8, 32))
BOUNDS = re.compile(rb"__launch_bounds__\s*\(\s*(\d+)")


def apply(source: OwnSource, kernel: Function) -> Iterator[OwnSource]:
    """Yields one source for each other block that is tried: from 32 to 1024 threads in one dimension
    (THREADS), or other shapes in two (SHAPES). Nothing unless the kernel has exactly one launch, whose block
    dimensions are constants. Nothing either for a two-dimensional block whose constants are defined outside
    of functions, since kernels could use those too."""
    launches = source.tree.launches_of(kernel.name)
    if len(launches) != 1:
        return
    block = block_of(source.tree, launches[0])
    if block is None:
        return
    if len(block) == 1:
        alone = elementwise(source, kernel)
        looping = alone is not None and any(any(walk(node, "for_statement")) for node in alone.nodes)
        for threads in FEW if looping else THREADS:
            if threads != block[0].value:
                yield source.edited(_sized(source, kernel, launches[0], block[0], threads))
    elif len(block) == 2 and not any(constant.shared for constant in block):
        for shape in SHAPES:
            if shape != (block[0].value, block[1].value):
                yield source.edited(_arranged(launches[0], block, shape))


def _sized(
    source: OwnSource, kernel: Function, launch: LaunchSyntax, block: Constant, threads: int
) -> list[Edit]:
    """Edits for `threads` threads in a one-dimensional block of `launch`, whose size is the constant `block`:
    the constant itself, numbers derived from it in the launching function and the kernel, and
    `__launch_bounds__`."""
    edits: dict[int, Edit] = {block.node.start_byte: replaced(block.node, str(threads))}
    old = block.value
    changes = {old: threads, old - 1: threads - 1}
    if block.name is None:
        for edit in numbers(launch.caller.body, changes):
            edits[edit[0]] = edit
    if not block.shared:
        inner = {int(text(n)) for n in walk(kernel.body, "number_literal") if text(n).isdigit()}
        if old in inner:
            changes |= {old // 2: threads // 2}
        for edit in numbers(kernel.body, changes if old in inner else {}):
            edits[edit[0]] = edit
    header = source.tree.bytes[kernel.node.start_byte : kernel.body.start_byte]
    found = BOUNDS.search(header)
    if found is not None and int(found[1]) == old:
        at = kernel.node.start_byte + found.start(1)
        edits[at] = (at, at + len(found[1]), str(threads))
    return list(edits.values())


def _arranged(launch: LaunchSyntax, block: list[Constant], shape: tuple[int, ...]) -> list[Edit]:
    """Edits for a two-dimensional block of `shape` (x, y) at `launch`: the two constants in `block`, its
    present shape, and numbers derived from them in the grid's dimensions."""
    edits: dict[int, Edit] = {}
    grid = dimensions(launch, launch.grid)
    for axis, (constant, new) in enumerate(zip(block, shape, strict=True)):
        edits[constant.node.start_byte] = replaced(constant.node, str(new))
        if axis < len(grid):
            for edit in numbers(grid[axis], {constant.value: new, constant.value - 1: new - 1}):
                edits[edit[0]] = edit
    return list(edits.values())
