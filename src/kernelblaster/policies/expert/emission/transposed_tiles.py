"""Transposed reads: tensors that are contiguous along another axis than the result are transposed in shared
memory.

A block does a square tile of the two loops: it reads along one, and computes and writes along the other.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kernelblaster.policies.expert import index as indices
from kernelblaster.policies.expert.emission.assign import assign
from kernelblaster.policies.expert.emission.emitted import Emitted
from kernelblaster.policies.expert.emission.loops import indented
from kernelblaster.policies.expert.emission.render import Renderer, renderer
from kernelblaster.policies.expert.emission.vectors import declared
from kernelblaster.policies.expert.expression import Gather, Load
from kernelblaster.policies.expert.index import text
from kernelblaster.policies.expert.plan import Axis, Kernel, Plan
from kernelblaster.policies.expert.schedule import TransposedTiles
from kernelblaster.policies.expert.transposition import transposition
from kernelblaster.policies.expert.vector_access import fits

SCHEDULES = (TransposedTiles,)
TILE = 64


@dataclass(frozen=True)
class _StagedRenderer(Renderer):
    staged: Mapping[Load, str] = field(default_factory=dict)

    def element(self, load: Load | Gather) -> str:
        if isinstance(load, Load) and load in self.staged:
            return f"{self.staged[load]}_tile[column][row]"
        return super().element(load)


def emit(kernel: Kernel, plan: Plan) -> Emitted:
    found = transposition(kernel, plan)
    schedule = kernel.schedule
    assert found is not None and isinstance(schedule, TransposedTiles)  # the technique has looked
    last, other = found.kernel.axes[-1], found.other
    outer = [axis for axis in found.kernel.axes if axis not in (last, other)]
    plain = renderer(plan)
    render = _StagedRenderer(plain.buffers, plain.real, staged=found.loads)
    tiles, others = indices.tiles(last.extent, TILE), indices.tiles(other.extent, TILE)
    blocks = indices.product([*(axis.extent for axis in outer), others, tiles])
    narrow = fits(plan, blocks)
    kind = "unsigned" if narrow else "int64_t"
    inside = f"if ({other.name} < {text(other.extent)} && {last.name} < {text(last.extent)}) {{"
    reads = [f"{name}_tile[row][column] = {plain.expression(load)};" for load, name in found.loads.items()]
    lines = [
        f"constexpr int WARPS = {schedule.threads // 32};",
        *(
            f"__shared__ {_kind(load, plan)} {name}_tile[{TILE}][{TILE + 1}];"
            for load, name in found.loads.items()
        ),
        f"const {kind} tiles = {text(tiles)}, others = {text(others)};",
        f"const int64_t {last.name}_first = blockIdx.x % tiles * {TILE};",
        f"const int64_t {other.name}_first = blockIdx.x / tiles % others * {TILE};",
        *([f"const {kind} place = blockIdx.x / tiles / others;"] if outer else []),
        *declared("place", outer, {axis.name for axis in outer}, narrow=narrow),
        *_over_tile(last, other, [inside, *indented(reads), "}"]),
        "__syncthreads();",
        *_over_tile(
            other, last, [inside, *indented(assign(s, plan, render) for s in found.kernel.stores), "}"]
        ),
    ]
    return Emitted(lines, text(blocks), schedule.threads)


def _over_tile(down: Axis, along: Axis, body: list[str]) -> list[str]:
    """Loops over a tile in which the lanes of a warp are neighbours along an axis."""
    return [
        "#pragma unroll",
        f"for (int row = threadIdx.x / 32; row < {TILE}; row += WARPS) {{",
        "  #pragma unroll",
        f"  for (int column = threadIdx.x % 32; column < {TILE}; column += 32) {{",
        f"    const int64_t {down.name} = {down.name}_first + row;",
        f"    const int64_t {along.name} = {along.name}_first + column;",
        *indented(indented(body)),
        "  }",
        "}",
    ]


def _kind(load: Load, plan: Plan) -> str:
    kinds = {"real": plan.real, "whole": "int64_t", "truth": "bool"}
    return kinds[load.kind]
