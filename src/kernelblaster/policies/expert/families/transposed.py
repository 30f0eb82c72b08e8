"""Transposed reads: tensors that lie along another loop than the result are turned in shared memory.

A block does a square tile of the two loops: it reads along one, and computes and writes along the other.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kernelblaster.policies.expert import emit as emitting
from kernelblaster.policies.expert import index as indices
from kernelblaster.policies.expert.address import alignment
from kernelblaster.policies.expert.expression import Gather, Load
from kernelblaster.policies.expert.families.assign import assign
from kernelblaster.policies.expert.families.loops import indented
from kernelblaster.policies.expert.families.near import declared, fits
from kernelblaster.policies.expert.flatten import flattened
from kernelblaster.policies.expert.index import Index, row_major, text
from kernelblaster.policies.expert.plan import Axis, Kernel, Plan
from kernelblaster.policies.expert.render import Renderer

TILE = 64


@dataclass(frozen=True)
class Turned:
    """A flattened pointwise kernel whose result runs along its last axis, and `loads` along another."""

    kernel: Kernel
    other: Axis
    loads: Mapping[Load, str]


@dataclass(frozen=True)
class _StagedRenderer(Renderer):
    staged: Mapping[Load, str] = field(default_factory=dict)

    def element(self, load: Load | Gather) -> str:
        if isinstance(load, Load) and load in self.staged:
            return f"{self.staged[load]}_tile[column][row]"
        return super().element(load)


def turned(kernel: Kernel, plan: Plan) -> Turned | None:
    """The kernel as one with transposed reads; None where it has none, or they do not run along one
    loop."""
    flat = flattened(kernel, plan)
    if kernel.stages or len(flat.axes) < 2:
        return None
    last = flat.axes[-1]
    found: dict[str, dict[Load, str]] = {}
    for load in dict.fromkeys(flat.loads()):
        if isinstance(load, Gather) or _runs(load.buffer, load.position, last, plan):
            continue
        for axis in flat.axes[:-1]:
            moving = last.name in indices.names(row_major(load.position, plan.buffers[load.buffer].shape))
            if moving and _runs(load.buffer, load.position, axis, plan):
                named = found.setdefault(axis.name, {})
                named[load] = f"{load.buffer}{len(named) or ''}"
    written = all(_runs(store.buffer, store.position, last, plan) for store in flat.stores)
    if len(found) != 1 or not written:
        return None
    name, loads = found.popitem()
    return Turned(flat, next(axis for axis in flat.axes if axis.name == name), loads)


def _runs(buffer: str, position: tuple[Index, ...], axis: Axis, plan: Plan) -> bool:
    address = row_major(position, plan.buffers[buffer].shape)
    return alignment(address, axis.name, plan.sizes[0]) is not None


def emit(kernel: Kernel, plan: Plan) -> emitting.Emitted:
    found = turned(kernel, plan)
    assert found is not None  # the technique has looked
    last, other = found.kernel.axes[-1], found.other
    outer = [axis for axis in found.kernel.axes if axis not in (last, other)]
    plain = emitting.renderer(plan)
    render = _StagedRenderer(plain.buffers, plain.real, staged=found.loads)
    tiles, others = indices.tiles(last.extent, TILE), indices.tiles(other.extent, TILE)
    blocks = indices.product([*(axis.extent for axis in outer), others, tiles])
    narrow = fits(plan, blocks)
    kind = "unsigned" if narrow else "int64_t"
    inside = f"if ({other.name} < {text(other.extent)} && {last.name} < {text(last.extent)}) {{"
    reads = [f"{name}_tile[row][column] = {plain.expression(load)};" for load, name in found.loads.items()]
    lines = [
        f"constexpr int WARPS = {kernel.schedule.threads // 32};",
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
    return emitting.Emitted(lines, text(blocks), kernel.schedule.threads)


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
    kinds = {"real": emitting.real_type(plan), "whole": "int64_t", "truth": "bool"}
    return kinds[load.kind]
