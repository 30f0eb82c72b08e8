"""Finds transposed reads of a pointwise kernel: loads of tensors that are contiguous along another axis than
the kernel's results."""

from collections.abc import Mapping
from dataclasses import dataclass

from kernelblaster.policies.expert import index as indices
from kernelblaster.policies.expert.axis import Axis
from kernelblaster.policies.expert.expression import Gather, Load
from kernelblaster.policies.expert.flatten import flattened
from kernelblaster.policies.expert.index import Index, row_major
from kernelblaster.policies.expert.kernel import Kernel
from kernelblaster.policies.expert.plan import Plan
from kernelblaster.policies.expert.proofs import alignment


@dataclass(frozen=True)
class Transposition:
    """A pointwise kernel with transposed reads. Its results are contiguous along its last axis, while the
    loads in `loads` are contiguous along the axis `other`; each of these loads has a name for its tile in
    shared memory. `kernel` has as few loops as possible: neighbouring ones are merged (see flatten.py)."""

    kernel: Kernel
    other: Axis
    loads: Mapping[Load, str]


def transposition(kernel: Kernel, plan: Plan) -> Transposition | None:
    """Returns the transposed reads of a pointwise kernel of `plan` (loads of tensors that are contiguous
    along another axis than the results), that other axis, and the kernel with as few loops as possible. None
    if it has no transposed reads, if they are not all contiguous along the same axis, or if the results are
    not contiguous along the last axis."""
    flat = flattened(kernel, plan)
    if kernel.stages or len(flat.axes) < 2:
        return None
    last = flat.axes[-1]
    found: dict[str, dict[Load, str]] = {}
    for load in dict.fromkeys(flat.loads):
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
    return Transposition(flat, next(axis for axis in flat.axes if axis.name == name), loads)


def _runs(buffer: str, position: tuple[Index, ...], axis: Axis, plan: Plan) -> bool:
    address = row_major(position, plan.buffers[buffer].shape)
    return alignment(address, axis.name, plan.sizes[0]) is not None
