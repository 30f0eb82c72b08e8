"""Splits a reduction into parts, each reduced on its own.

One kernel reduces each part, and a second one combines the results of the parts. If the reduction also stores
something for every element, a third kernel does that. Reductions (stages) that need each other's results
cannot be split. Parts are combined in a fixed order, so that every run gives the same result.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from kernelblaster.policies.expert import index as indices
from kernelblaster.policies.expert.axis import Axis, Part
from kernelblaster.policies.expert.combines.combine import PartResults
from kernelblaster.policies.expert.expression import (
    Counted,
    Expression,
    Gather,
    Kind,
    Load,
    Reduced,
    rebuild,
    to_kind,
)
from kernelblaster.policies.expert.index import Index
from kernelblaster.policies.expert.kernel import Kernel, Stage, Store
from kernelblaster.policies.expert.plan import Buffer, Plan
from kernelblaster.policies.expert.schedules.columns import ColumnReduction, Columns
from kernelblaster.policies.expert.schedules.reductions import Accumulating
from kernelblaster.policies.expert.schedules.rows import BlockRows, TunedRows, WarpRows
from kernelblaster.policies.expert.schedules.schedule import Schedule
from kernelblaster.records.signature import Dtype

PART = "part"
LONG = 1024  # parts up to which a warp combines them


@dataclass(frozen=True)
class Splitting:
    """What is needed to split a reduction, the kernel `kernel` of `plan`: the first of its reduced loops is
    cut into parts of `length` iterations, and each part is reduced on its own."""

    plan: Plan
    kernel: Kernel
    length: Index

    @property
    def across(self) -> bool:
        return isinstance(self.kernel.schedule, ColumnReduction)

    @property
    def parts(self) -> Axis:
        cut = self.kernel.reduced[0].extent
        return Axis(
            PART, indices.divide(indices.add(cut, indices.subtract(self.length, indices.ONE)), self.length)
        )

    @property
    def stem(self) -> str:
        return self.kernel.name.removesuffix("_kernel")

    def position(self) -> tuple[Index, ...]:
        """Returns where the result of one part is stored in scratch memory, as a symbolic index for each
        dimension. The last index is the number of the part; in a reduction across memory (down columns), the
        first one is."""
        own = tuple(axis.index for axis in self.kernel.axes)
        return (self.parts.index, *own) if self.across else (*own, self.parts.index)

    def axes(self) -> tuple[Axis, ...]:
        return (self.parts, *self.kernel.axes) if self.across else (*self.kernel.axes, self.parts)

    def buffer(self, name: str, kind: Kind, axes: Sequence[Axis]) -> Buffer:
        real: Dtype = "float64" if self.plan.signature.outputs[0].dtype == "float64" else "float32"
        dtypes: dict[Kind, Dtype] = {"real": real, "whole": "int64", "truth": "bool"}
        return Buffer(f"{self.stem}_{name}", tuple(a.extent for a in axes), dtypes[kind], scratch=True)

    def partial(self, name: str, kind: Kind) -> Load:
        return Load(f"{self.stem}_{name}_parts", self.position(), kind)


def split(plan: Plan, kernel: Kernel, flat: Kernel, length: int) -> Plan:
    """Returns the plan in which the reduction `kernel` is replaced by kernels that reduce it in parts and
    combine the results of the parts. A part has `length` iterations of the first reduced loop of `flat`,
    which is `kernel` with as few loops as possible, as `flattened` (flatten.py) returns it."""
    splitting = Splitting(plan, flat, indices.number(length))
    stages = list(flat.stages)
    for stage in flat.stages:
        beside = companion(stage, stages)
        stages += [beside] if beside is not None and beside not in stages else []
    results = {stage.name: _kind(stage) for stage in flat.stages}
    buffers = [splitting.buffer(f"{s.name}_parts", _kind(s), splitting.axes()) for s in stages]
    buffers += [splitting.buffer(name, kind, flat.axes) for name, kind in results.items()]
    new = [_partial_kernel(splitting, stages), _combining_kernel(splitting)]
    if any(store.over for store in flat.stores):
        new.append(_element_kernel(splitting))
    kernels = [k for old in plan.kernels for k in (new if old is kernel else (old,))]
    known = dict(plan.buffers) | {buffer.name: buffer for buffer in buffers}
    return replace(plan, buffers=known).with_kernels(tuple(kernels))


def _kind(stage: Stage) -> Kind:
    return stage.combine.result_kind(stage.body.kind)


def companion(stage: Stage, known: Sequence[Stage]) -> Stage | None:
    """Returns the second reduction that each part must compute beside `stage` if that is split, because its
    results alone are not enough to combine the parts (for a variance, the sum). If it is among the reductions
    `known`, it is returned from there. None if nothing more is needed."""
    if stage.combine.companion is None:
        return None
    suffix, combine = stage.combine.companion
    same = (found for found in known if found.combine == combine and found.body == stage.body)
    return next(same, Stage(f"{stage.name}_{suffix}", combine, stage.body, stage.axes))


def _partial_kernel(splitting: Splitting, stages: Sequence[Stage]) -> Kernel:
    kernel = splitting.kernel
    cut = replace(kernel.reduced[0], part=Part(PART, splitting.length))
    stores = tuple(
        Store(splitting.partial(s.name, _kind(s)).buffer, splitting.position(), Reduced(s.name, _kind(s)))
        for s in stages
    )
    parts = replace(
        kernel,
        name=f"{splitting.stem}_parts_kernel",
        axes=splitting.axes(),
        stages=tuple(stages),
        stores=stores,
        schedule=_partial_schedule(kernel.schedule),
    )
    return parts.with_loops({cut.name: (cut,)})


def _partial_schedule(old: Schedule) -> Schedule:
    """The layout on the GPU of the kernel that reduces the parts, when that of the unsplit kernel is `old`:
    columns for a reduction down columns, otherwise a block for each part of a row. Threads, vectors and
    unrolling stay as tuned; no elements are kept in registers."""
    assert isinstance(old, Accumulating)
    width, unroll, streaming = 1, 1, False
    if isinstance(old, Columns | TunedRows):
        width, unroll, streaming = old.vector_width, old.unroll, old.streaming
    if isinstance(old, ColumnReduction):
        return Columns(width, old.threads, unroll, streaming, old.accumulate)
    return BlockRows(True, 0, old.threads, width, unroll, streaming, old.accumulate)


def _combining_kernel(splitting: Splitting) -> Kernel:
    kernel = splitting.kernel
    stages: list[Stage] = []
    results: dict[str, Expression] = {}
    for stage in kernel.stages:
        found, result = _combined(splitting, stage)
        stages += [new for new in found if new.name not in {old.name for old in stages}]
        results[stage.name] = result
    stores = [replace(s, value=_with(s.value, results)) for s in kernel.stores if not s.over]
    if any(store.over for store in kernel.stores):
        own = tuple(axis.index for axis in kernel.axes)
        stores += [Store(f"{splitting.stem}_{name}", own, value) for name, value in results.items()]
    few = splitting.plan.extent(splitting.parts.extent) <= LONG and bool(kernel.axes)
    assert isinstance(kernel.schedule, Accumulating)
    accumulate = kernel.schedule.accumulate
    if splitting.across:
        schedule: Schedule = Columns(accumulate=accumulate)
    else:
        schedule = WarpRows(accumulate=accumulate) if few else BlockRows(True, accumulate=accumulate)
    return Kernel(
        name=kernel.name,
        axes=kernel.axes,
        stores=tuple(stores),
        stages=tuple(stages),
        schedule=schedule,
    )


def _combined(splitting: Splitting, stage: Stage) -> tuple[list[Stage], Expression]:
    """The reductions that combine the parts' results of the reduction `stage`, and the expression of the
    final result."""
    found = splitting.partial(stage.name, _kind(stage))
    beside = companion(stage, splitting.kernel.stages)

    def chosen(winner: str) -> Gather:
        place = splitting.position().index(splitting.parts.index)
        position = tuple(indices.ZERO if i == place else p for i, p in enumerate(found.position))
        return Gather(found.buffer, position, place, Reduced(winner, "whole"), found.kind)

    whole = indices.product(axis.extent for axis in splitting.kernel.reduced)
    parts = PartResults(
        name=stage.name,
        own=found,
        beside=None if beside is None else (beside.name, splitting.partial(beside.name, beside.body.kind)),
        members=to_kind(Counted(_members(splitting)), "real"),
        whole=to_kind(Counted(whole), "real"),
        chosen=chosen,
    )
    stages, result = stage.combine.of_parts(parts)
    return [Stage(*each, (splitting.parts,)) for each in stages], result


def _members(splitting: Splitting) -> Index:
    """The number of elements in the part that the kernel is at, as a symbolic index. It is
    `splitting.length`, except for the last part, which may have fewer."""
    cut, *rest = splitting.kernel.reduced
    cut = replace(cut, part=Part(PART, splitting.length))
    return indices.product([indices.subtract(cut.end, cut.begin), *(axis.extent for axis in rest)])


def _element_kernel(splitting: Splitting) -> Kernel:
    """The pointwise kernel that computes, from the final results, what the unsplit reduction stores for every
    element; its axes are in the order of memory."""
    kernel = splitting.kernel
    own = tuple(axis.index for axis in kernel.axes)
    results: dict[str, Expression] = {
        stage.name: Load(f"{splitting.stem}_{stage.name}", own, _kind(stage)) for stage in kernel.stages
    }
    stores = [replace(s, value=_with(s.value, results), over=()) for s in kernel.stores if s.over]
    first = stores[0]
    address = indices.row_major(first.position, splitting.plan.buffers[first.buffer].shape)
    axes = sorted(
        (*kernel.axes, *kernel.reduced), key=lambda axis: -_stride(splitting.plan, address, axis, kernel)
    )
    return Kernel(f"{splitting.stem}_apply_kernel", tuple(axes), tuple(stores))


def _stride(plan: Plan, address: Index, axis: Axis, kernel: Kernel) -> int:
    still = {other.name: 0 for other in (*kernel.axes, *kernel.reduced)}
    return indices.evaluate(address, {**plan.sizes[0], **still, axis.name: 1}) - indices.evaluate(
        address, {**plan.sizes[0], **still}
    )


def _with(value: Expression, results: dict[str, Expression]) -> Expression:
    def change(part: Expression) -> Expression:
        return results[part.stage] if isinstance(part, Reduced) else part

    return rebuild(value, change)
