"""Window register blocking: a thread computes several neighbouring results of a pooling or a depthwise
convolution, a patch, and reads each element under their windows once.

Along the dimension that is contiguous in memory, the number of results in a patch is the number of elements
of a 16-byte vector, divided by the stride: four float32 results at stride 1, two at stride 2. The lanes of a
warp then read neighbouring vectors. Along other dimensions in which windows overlap, larger patches share
more of what is read. Their size is limited by a thread's registers, and because enough threads must remain to
fill the GPU.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import product
from math import prod

from kernelblaster.devices.specs import GpuSpec
from kernelblaster.policies.expert.kernel import Kernel
from kernelblaster.policies.expert.plan import Plan
from kernelblaster.policies.expert.rewriting import No
from kernelblaster.policies.expert.schedules.columns import ThreadPerColumn
from kernelblaster.policies.expert.schedules.windows import WindowPatches
from kernelblaster.policies.expert.sliding_windows import Slide, SlidingWindows, sliding_windows
from kernelblaster.policies.expert.vector_access import vector_access

APPLIES_TO = (ThreadPerColumn,)
MOST_RESULTS = 32  # of a thread, in registers
MOST_STEPS = 2048  # of the unrolled loops of a thread
FILLED = 512  # threads of an SM, at least
LINES = (1, 2, 4, 8, 16)
RANKS = 4  # patches that are offered
RESULT_COST = 1 / 12  # of a further result in registers, against reading a line of the operand once more


def _blocked(kernel: Kernel, plan: Plan, gpu: GpuSpec, rank: int) -> Kernel | No:
    assert isinstance(kernel.schedule, ThreadPerColumn)
    found = sliding_windows(kernel, plan)
    if found is None:
        return No("it does not reduce windows that slide over contiguous memory")
    ranked = sorted(_patches(found, kernel, plan, gpu), key=lambda patch: _cost(patch, found, plan))
    if not ranked:
        return No("its windows are too large to be unrolled")
    if rank >= len(ranked):
        return No("no further patch fits it")
    own = kernel.schedule
    return replace(kernel, schedule=replace(ranked[rank], accumulate=own.accumulate))


def _patches(found: SlidingWindows, kernel: Kernel, plan: Plan, gpu: GpuSpec) -> Iterator[WindowPatches]:
    columns, width = _along_memory(found, kernel, plan)
    steps = prod(slide.taps for slide in found.slides)
    results = plan.elements(kernel.axes)
    for lines in product(*(_lines(slide, plan) for slide in found.lines)):
        patch = WindowPatches(lines, columns, width)
        fills = results >= gpu.multiprocessors * FILLED * patch.results or prod(lines) == 1
        if patch.results <= MOST_RESULTS and patch.results * steps <= MOST_STEPS and fills:
            yield patch


def _along_memory(found: SlidingWindows, kernel: Kernel, plan: Plan) -> tuple[int, int]:
    """Returns (the number of neighbouring results along memory that a thread computes, the width of the
    vectors that it reads); both 1 where sizes leave vectors unaligned."""
    column, grain = found.column, found.grain(plan)
    access = vector_access(replace(kernel, stages=()), plan, column.result)
    columns = grain // column.stride if grain % column.stride == 0 else 1
    while columns > 1 and not access.possible(plan, columns):
        columns //= 2
    width = grain
    while width > 1 and ((columns * column.stride) % width or not _aligned(found, plan, width)):
        width //= 2
    return (columns, width) if width > 1 else (1, 1)


def _aligned(found: SlidingWindows, plan: Plan, width: int) -> bool:
    return all(plan.extent(divisor) % width == 0 for divisor in found.divisors)


def _lines(slide: Slide, plan: Plan) -> tuple[int, ...]:
    """The numbers of results along a dimension that are worth trying for one thread; only 1 where windows do
    not overlap, so that neighbouring results share nothing."""
    if slide.reach < slide.stride:
        return (1,)
    return tuple(count for count in LINES if count < 2 * plan.extent(slide.result.extent))


def _cost(patch: WindowPatches, found: SlidingWindows, plan: Plan) -> float:
    """An estimate of what a patch costs, to compare patches with: the lines of the operand that are read for
    each line of results, plus RESULT_COST for each result that a thread keeps in registers."""
    lines = 1.0
    for slide, count in zip(found.lines, patch.lines, strict=True):
        extent = plan.extent(slide.result.extent)
        lines *= slide.span(count) * -(-extent // count) / max(extent, 1)
    return lines + RESULT_COST * patch.results


REWRITES = tuple(partial(_blocked, rank=rank) for rank in range(RANKS))
