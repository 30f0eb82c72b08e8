"""Writes the code that reads and writes vectors of neighbouring elements, for the emitters of rows, columns
and scans.

In the emitted code a vector is a `Pack`. The variable `first` is the position of the vector's first element
along the axis in which the vector lies; `lane` counts its elements.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kernelblaster.policies.expert import index as indices
from kernelblaster.policies.expert.axis import Axis
from kernelblaster.policies.expert.cuda.statements import Do, Statement
from kernelblaster.policies.expert.cuda.terms import (
    CudaType,
    Given,
    Local,
    Term,
    all_of,
    read,
    vector_pointer,
)
from kernelblaster.policies.expert.emission.functions import pack_type, read_once, write_once, write_pack
from kernelblaster.policies.expert.emission.places import local
from kernelblaster.policies.expert.emission.values import Values, c_type, index_term
from kernelblaster.policies.expert.expression import Gather, Load
from kernelblaster.policies.expert.index import Index, row_major
from kernelblaster.policies.expert.kernel import Store
from kernelblaster.policies.expert.plan import Buffer, Plan
from kernelblaster.policies.expert.vector_access import VectorAccess

FIRST, LANE = local("first", "lane")


@dataclass(frozen=True)
class VectorValues(Values):
    """Turns the values that a kernel computes into C++ expressions, as `Values` does, for kernels that read
    and write vectors. An element that belongs to a vector is written as an element of the vector's C++
    variable, `<name>_at.at[lane]`. `reads` maps each load that is part of a vector to the vector's name.
    `writes` does the same for stores, by (buffer, position)."""

    reads: Mapping[Load | Gather, str] = field(default_factory=dict)
    writes: Mapping[tuple[str, tuple[Index, ...]], str] = field(default_factory=dict)

    def element(self, load: Load | Gather) -> Term:
        return lane_of(self.reads[load]) if load in self.reads else super().element(load)

    def place(self, buffer: str, position: tuple[Index, ...]) -> Term:
        if (buffer, position) in self.writes:
            return lane_of(self.writes[buffer, position])
        return super().place(buffer, position)


def vector_values(values: Values, found: VectorAccess) -> VectorValues:
    writes = {(store.buffer, store.position): name for store, name in found.writes.items()}
    return VectorValues(values.buffers, values.sizes, values.real, reads=found.reads, writes=writes)


def vector_name(name: str) -> Local:
    return Local(f"{name}_at")


def lane_of(name: str) -> Term:
    return vector_name(name).field("at")[LANE]


def vector_type(buffer: Buffer, width: str = "WIDTH") -> CudaType:
    return pack_type(c_type(buffer.dtype), width)


def pointer(load: Load | Gather, values: Values, along: Axis, width: str = "WIDTH") -> Term:
    """Returns the C++ pointer to the vector that `load` reads: `width` elements along the axis `along`. The
    emitted code must have a variable `first`, the position of the vector's first element along that axis.
    `values` writes the indices as C++; `width` is the name of a constant of the emitted code."""
    place = indices.replace(values.address(load), {along.name: indices.variable(FIRST.name)})
    return vector_pointer(
        vector_type(values.buffers[load.buffer], width), Given(load.buffer) + values.index(place)
    )


def read_vector(
    load: Load | Gather, values: Values, along: Axis, *, once: bool, width: str = "WIDTH"
) -> Term:
    """Returns the C++ expression that reads the vector of `load`: `width` elements along the axis `along`.
    The emitted code must have a variable `first`, the position of the vector's first element along that axis.
    With `once`, the vector is read by a streaming load (`__ldcs`), as data that is not used again. `values`
    writes the indices as C++; `width` is the name of a constant of the emitted code."""
    found = pointer(load, values, along, width)
    return read_once(found) if once else read(found)


def write_vector(
    store: Store, name: str, values: Values, along: Axis, *, once: bool, width: str = "WIDTH"
) -> Statement:
    address = row_major(store.position, values.buffers[store.buffer].shape)
    place = indices.replace(address, {along.name: indices.variable(FIRST.name)})
    kind = vector_type(values.buffers[store.buffer], width)
    to = vector_pointer(kind, Given(store.buffer) + values.index(place), const=False)
    return Do((write_once if once else write_pack)(to, vector_name(name)))


def aligned(access: VectorAccess, width: int, plan: Plan) -> Term | None:
    """Returns the C++ condition, for the host to test, under which all vectors of `access` are aligned if
    they have `width` elements; None if they are aligned at all sizes of the `plan`."""
    divisors = access.conditions(width)
    return all_of([(index_term(d, plan.sizes[0]) % width).equals(0) for d in divisors])
