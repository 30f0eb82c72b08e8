"""Packing an operand for tensor cores: rearranged, padded with zeros, and split into half precisions.

A packed operand is a sequence of slabs of 64 rows; a slab is a sequence of tiles of 32 elements of
the K axis; a tile holds its terms one after another, each as 64 rows of 32 numbers. Within a
row, the four groups of 8 numbers change places with the row's number, so that reading 8 rows at once
touches every bank of shared memory. A tile is therefore copied as it lies.

What is split is scaled before, by a power of two for every few tiles of a row.
"""

from dataclasses import replace

from kernelblaster.policies.expert import index as indices
from kernelblaster.policies.expert.device_code import device_code
from kernelblaster.policies.expert.emission.emitted import Emitted
from kernelblaster.policies.expert.emission.loops import indented, unravel
from kernelblaster.policies.expert.emission.render import renderer
from kernelblaster.policies.expert.expression import Gather, Load, loads
from kernelblaster.policies.expert.index import Index, row_major, text
from kernelblaster.policies.expert.plan import TOGETHER, Axis, Kernel, Plan, Store
from kernelblaster.policies.expert.schedule import PACKED_DEPTH, PACKED_ROWS, Packing
from kernelblaster.tasks.header import C_TYPES

SCHEDULES = (Packing,)
THREADS = 256  # 64 rows of 4 groups
SLAB_ROWS = 64
TERM = SLAB_ROWS * PACKED_DEPTH


def emit(kernel: Kernel, plan: Plan) -> Emitted:
    """A block packs one slab's next few tiles; a thread 8 neighbours of one row of each of them."""
    store = kernel.stores[0]
    buffer = plan.buffers[store.buffer]
    *outer, inner = kernel.axes
    rows = buffer.shape[-2]
    parts = indices.tiles(inner.extent, TOGETHER * PACKED_DEPTH)
    slabs = indices.divide(indices.round_up(rows, PACKED_ROWS), indices.number(SLAB_ROWS))
    batch = indices.product(buffer.shape[:-2])
    reads = _contiguous_reads(kernel, plan)
    along = bool(reads) or any(_contiguous(load, inner.name) for load in loads(store.value))
    lines = [
        "const int row = threadIdx.x / 4, group = threadIdx.x % 4;"
        if along
        else "const int row = threadIdx.x % 8 + threadIdx.x / 32 * 8, group = threadIdx.x / 8 % 4;",
        f"const int64_t tiles = {text(indices.tiles(inner.extent, PACKED_DEPTH))};",
        f"const int64_t parts = {text(parts)}, slabs = {text(slabs)};",
        "const int64_t part = blockIdx.x % parts, slab = blockIdx.x / parts;",
        f"const int64_t line = slab % slabs * {SLAB_ROWS} + row;",
        f"float value[{TOGETHER}][8] = {{}};",
        f"if (line < {text(rows)}) {{",
        *indented(_outer(outer, rows, batch)),
        *indented(_values(kernel, plan, store, reads)),
        "}",
        *(_scaling(kernel.stores[1], 1 if along else 8) if buffer.terms > 1 else []),
        *_stores(store.buffer, C_TYPES[buffer.dtype], buffer.terms),
    ]
    helpers = [device_code("read_near")] if reads else []
    helpers += [device_code("split_terms")] if buffer.terms > 1 else []
    blocks = text(indices.product([batch, slabs, parts]))
    return Emitted(lines, blocks, THREADS, tuple(helpers))


def _outer(axes: list[Axis], rows: Index, batch: Index) -> list[str]:
    """The variables of the batch and of the row within it."""
    if indices.is_number(batch, 1):
        return unravel("line", axes)
    place = indices.add(indices.multiply(indices.variable("batch"), rows), indices.variable("line"))
    return ["const int64_t batch = slab / slabs;", f"const int64_t i = {text(place)};", *unravel("i", axes)]


def _values(kernel: Kernel, plan: Plan, store: Store, reads: list[Load]) -> list[str]:
    inner = kernel.axes[-1]
    extent = text(inner.extent)
    render = renderer(plan)
    lines = [f"const int64_t first = (part * {TOGETHER} + tile) * {PACKED_DEPTH} + group * 8;"]
    if reads:
        render = replace(render, whole=reads[0].position, whole_form="{buffer}_near[e]")
        start = {inner.name: indices.variable("first")}
        for load in reads:
            found = plan.buffers[load.buffer]
            place = row_major((indices.replace(i, start) for i in load.position), found.shape)
            lines.append(f"{C_TYPES[found.dtype]} {found.name}_near[8];")
            lines.append(f"read_near({found.name}_near, {found.name} + {text(place)}, {extent} - first);")
    lines += [
        "#pragma unroll",
        "for (int e = 0; e < 8; ++e) {",
        f"  const int64_t {inner.name} = first + e;",
        f"  if ({inner.name} < {extent}) value[tile][e] = {render.expression(store.value)};",
        "}",
    ]
    head = ["#pragma unroll", f"for (int tile = 0; tile < {TOGETHER}; ++tile) {{"]
    return [*head, *indented(lines), "}"]


def _scaling(store: Store, lanes: int) -> list[str]:
    return [
        "float largest = 0;",
        "#pragma unroll",
        f"for (int i = 0; i < {TOGETHER * 8}; ++i) largest = fmaxf(largest, fabsf(value[i / 8][i % 8]));",
        f"const float row_scale = scale_for(largest_of_row(largest, {lanes}));",
        "const float inverse = 1.0f / row_scale;",
        "if (group == 0) {",
        f"  {store.buffer}[(slab / slabs * parts + part) * slabs * {SLAB_ROWS} + line] = row_scale;",
        "}",
    ]


def _stores(name: str, kind: str, terms: int) -> list[str]:
    """Each term of each tile with one store of 16 bytes."""
    lines = [
        f"const int64_t place = part * {TOGETHER} + tile;",
        "if (place >= tiles) break;",
        f"alignas(16) {kind} term[{terms}][8];",
        "#pragma unroll",
        "for (int e = 0; e < 8; ++e) {",
        *indented(_terms(kind, terms)),
        "}",
        f"{kind}* to = {name} + (slab * tiles + place) * {terms * TERM}",
        f"    + row * {PACKED_DEPTH} + (group ^ (row / 2 % 4)) * 8;",
    ]
    for term in range(terms):
        offset = f" + {term * TERM}" if term else ""
        lines.append(
            f"*reinterpret_cast<uint4*>(to{offset}) = *reinterpret_cast<const uint4*>(term[{term}]);"
        )
    head = ["#pragma unroll", f"for (int tile = 0; tile < {TOGETHER}; ++tile) {{"]
    return [*head, *indented(lines), "}"]


def _terms(kind: str, terms: int) -> list[str]:
    """CUDA statements that split a float into `terms` half-precision numbers (type `kind`) whose sum it is:
    the rounded value, then the rounding error."""
    if terms == 1:
        return [f"term[0][e] = ({kind})value[tile][e];"]
    return [
        "const float scaled = value[tile][e] * inverse;",
        f"term[0][e] = ({kind})scaled;",
        f"term[1][e] = isinf(scaled) ? ({kind})0.0f : ({kind})(scaled - (float)term[0][e]);",
    ]


def _contiguous_reads(kernel: Kernel, plan: Plan) -> list[Load]:
    """Loads whose neighbours along the K axis lie side by side, where all are at one position."""
    inner = kernel.axes[-1]
    found = [load for load in dict.fromkeys(loads(kernel.stores[0].value)) if _contiguous(load, inner.name)]
    plain = [load for load in found if isinstance(load, Load)]
    same = len({load.position for load in plain}) == 1
    floating = all(plan.buffers[load.buffer].dtype in ("float32", "float16", "bfloat16") for load in plain)
    whole = all(plan.same(plan.buffers[load.buffer].shape[-1], inner.extent) for load in plain)
    return plain if same and floating and whole else []


def _contiguous(load: Load | Gather, inner: str) -> bool:
    if isinstance(load, Gather) or not load.position or load.position[-1].name != inner:
        return False
    return not any(inner in indices.names(index) for index in load.position[:-1])
