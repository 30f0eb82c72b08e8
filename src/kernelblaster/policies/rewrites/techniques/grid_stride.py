"""Grid-stride loop: launches fewer blocks, and lets each thread process several elements. The indices of a
thread's elements are as far apart as the grid has threads."""

from collections.abc import Iterator

from kernelblaster.policies.rewrites.elementwise import elementwise, fewer_blocks
from kernelblaster.policies.rewrites.own_source import OwnSource
from kernelblaster.tasks.cuda_source import Function, replaced

TIMES = (4, 8, 2)


def apply(source: OwnSource, kernel: Function) -> Iterator[OwnSource]:
    """Yields three sources, in which the kernel is launched with a quarter, an eighth and half of its blocks
    (TIMES). Nothing unless the kernel is elementwise (one thread for each index) and all its grids and blocks
    are one-dimensional."""
    found = elementwise(source, kernel)
    if found is None:
        return
    body = f"""{{
  const long long stride = (long long)gridDim.x * blockDim.x;
  for (long long place = {found.index}; place < (long long)({found.bound}); place += stride) {{
    const {found.kind} {found.variable} = ({found.kind})place;
    {found.written(found.work, 4)}
  }}
}}"""
    for times in TIMES:
        launches = fewer_blocks(source, kernel, times)
        if launches:
            yield source.edited([*launches, replaced(kernel.body, body)])
