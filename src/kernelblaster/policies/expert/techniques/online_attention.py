"""Online attention: softmax(queries * keys) * values as one kernel on tensor cores, instead of two products
with a softmax between them.

A block goes over the keys and keeps three things for each of its queries: the largest score so far, the sum
of the weights, and the weighted sum of the values. Both sums are scaled down when a larger score comes
(online softmax). Scores and weights are never in memory. Tiles of keys that the mask hides from all queries
of a block are skipped.

Separate kernels, launched first, pack the operands (packing.py). If these are float32, an element of a query
or key is packed as two float16 numbers, and an element of a value as three bfloat16 numbers."""

from dataclasses import replace
from functools import partial

from kernelblaster.devices.occupancy import limits_of
from kernelblaster.devices.specs import GpuSpec
from kernelblaster.policies.expert.attention import Attention, found_attention
from kernelblaster.policies.expert.expression import Expression, loads
from kernelblaster.policies.expert.kernel import Kernel
from kernelblaster.policies.expert.packing import Packable, pack_operand
from kernelblaster.policies.expert.plan import Plan
from kernelblaster.policies.expert.rewriting import No, PlanRewrite
from kernelblaster.policies.expert.schedules.attention import OnlineAttention
from kernelblaster.policies.expert.schedules.products import PACKED_DEPTH, ThreadPerResult, TiledProduct
from kernelblaster.records.signature import Dtype

APPLIES_TO = (ThreadPerResult, TiledProduct)
SHAPES = ((1, 4, 32), (1, 4, 64), (2, 4, 64), (1, 8, 64), (1, 8, 32), (1, 2, 32))  # fragments, warps, keys
WIDEST = 256  # columns of a block's result, and elements of depth in shared memory
LEAST_WIDTH = 16
MOST_SUMS = {32: 256, 64: 128}  # fragments times columns, by keys: more leave a thread too few registers


Form = tuple[Dtype, int]  # a half precision, and how many numbers of it an element is split into


def _attention(kernel: Kernel, plan: Plan, gpu: GpuSpec, shape: tuple[int, int, int]) -> Plan | No:
    found = found_attention(kernel, plan)
    if isinstance(found, No):
        return found
    attention, joined, (scores, softmax) = found
    form = _form(attention, plan)
    if isinstance(form, No):
        return form
    schedule = _schedule(attention, plan, shape)
    limits = limits_of(gpu.architecture)
    room = limits.shared_bytes - limits.reserved_shared_bytes
    if schedule is None or schedule.shared_bytes(form[0][1], form[1][1]) > room:
        return No("a tile of queries, keys and values does not fit into registers and shared memory")
    return _packed(plan, (scores, softmax, kernel), joined, attention, schedule, form)


def _form(attention: Attention, plan: Plan) -> tuple[Form, Form] | No:
    """Returns how operands are packed: (the form of queries and keys, that of values), each as a type and the
    number of such numbers that an element is stored as; `No` with a reason if they cannot be packed. If
    operands are float32, queries and keys become scaled halves: an error of a score is felt relative to the
    largest of its row. Values need the range of float32, since small ones count where their weights are
    large."""
    sides = (attention.query, attention.key, attention.value)
    found = {plan.buffers[load.buffer].dtype for side in sides for load in loads(side) if load.kind == "real"}
    if "float64" in found:
        return No("its operands are float64")
    if "float32" in found:
        return ("float16", 2), ("bfloat16", 3)
    if len(found) != 1:
        return No("its operands are not of one precision")
    alone = (next(iter(found)), 1)
    return alone, alone


def _schedule(attention: Attention, plan: Plan, shape: tuple[int, int, int]) -> OnlineAttention | None:
    """The schedule with so many fragments of a warp, warps, and keys of a tile; None if a thread would have
    too many sums."""
    fragments, warps, keys = shape
    depth = -(-plan.extent(attention.depth.extent) // PACKED_DEPTH) * PACKED_DEPTH
    columns = -(-plan.elements(attention.columns) // LEAST_WIDTH) * LEAST_WIDTH
    width = min(columns, WIDEST)
    if fragments * width > MOST_SUMS[keys]:
        return None
    return OnlineAttention(fragments, warps, keys, min(depth, WIDEST), width)


def _packed(
    plan: Plan,
    old: tuple[Kernel, Kernel, Kernel],
    joined: Kernel,
    attention: Attention,
    schedule: OnlineAttention,
    form: tuple[Form, Form],
) -> Plan:
    """The plan with the three kernels `old` replaced by the kernel `joined` with this `schedule`, which comes
    after kernels that pack its operands."""
    stem = joined.name.removesuffix("_kernel")
    batch, keys = attention.batch, (attention.keys,)
    sides = {
        "queries": Packable(batch, attention.queries, attention.depth, attention.query),
        "keys": Packable(batch, keys, attention.depth, attention.key),
        "values": Packable(batch, attention.columns, attention.keys, attention.value),
    }
    before: list[Kernel] = []
    buffers = dict(plan.buffers)
    read: dict[str, Expression] = {}
    for name, side in sides.items():
        dtype, terms = form[name == "values"]
        pack, made, read[name] = pack_operand(plan, side, f"{stem}_{name}", dtype, terms)
        buffers |= {buffer.name: buffer for buffer in made}
        before += [pack] if pack is not None else []
    packed = replace(attention, query=read["queries"], key=read["keys"], value=read["values"])
    kernel = replace(joined, stages=packed.stages(), schedule=schedule)
    *gone, last = old
    kernels = [k for k in plan.kernels if k not in gone]
    place = kernels.index(last)
    kernels[place : place + 1] = [*before, kernel]
    return replace(plan, buffers=buffers).with_kernels(tuple(kernels))


PLAN_REWRITES: tuple[PlanRewrite, ...] = tuple(partial(_attention, shape=shape) for shape in SHAPES)
