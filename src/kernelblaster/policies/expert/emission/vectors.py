"""The CUDA text of moving a vector of neighbouring elements.

In the emitted code a vector is a `Pack`; `first` is the axis' position at the first of its elements, and
`lane` counts them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kernelblaster.policies.expert import index as indices
from kernelblaster.policies.expert.emission.render import Renderer
from kernelblaster.policies.expert.expression import Gather, Load
from kernelblaster.policies.expert.index import Index, row_major, text
from kernelblaster.policies.expert.plan import Axis, Buffer, Store
from kernelblaster.policies.expert.vector_access import VectorAccess
from kernelblaster.tasks.header import C_TYPES

FIRST = "first"


@dataclass(frozen=True)
class VectorRenderer(Renderer):
    """Writes elements of vectors as such, and all others by their addresses."""

    reads: Mapping[Load | Gather, str] = field(default_factory=dict)
    writes: Mapping[tuple[str, tuple[Index, ...]], str] = field(default_factory=dict)

    def element(self, load: Load | Gather) -> str:
        return f"{self.reads[load]}_at.at[lane]" if load in self.reads else super().element(load)

    def place(self, buffer: str, position: tuple[Index, ...]) -> str:
        if (buffer, position) in self.writes:
            return f"{self.writes[buffer, position]}_at.at[lane]"
        return super().place(buffer, position)


def vector_renderer(render: Renderer, found: VectorAccess) -> VectorRenderer:
    writes = {(store.buffer, store.position): name for store, name in found.writes.items()}
    return VectorRenderer(render.buffers, render.real, reads=found.reads, writes=writes)


def vector_type(buffer: Buffer, width: str = "WIDTH") -> str:
    return f"Pack<{C_TYPES[buffer.dtype]}, {width}>"


def pointer_text(load: Load | Gather, render: Renderer, along: Axis, width: str = "WIDTH") -> str:
    """The address of the vector that starts at `first`."""
    place = indices.replace(render.address(load), {along.name: indices.variable(FIRST)})
    kind = vector_type(render.buffers[load.buffer], width)
    return f"reinterpret_cast<const {kind}*>({load.buffer} + {render.index(place)})"


def read_text(load: Load | Gather, render: Renderer, along: Axis, *, once: bool) -> str:
    """The vector that starts at `first`."""
    pointer = pointer_text(load, render, along)
    return f"read_once({pointer})" if once else f"*{pointer}"


def write_text(
    store: Store, name: str, render: Renderer, along: Axis, *, once: bool, width: str = "WIDTH"
) -> str:
    address = row_major(store.position, render.buffers[store.buffer].shape)
    place = indices.replace(address, {along.name: indices.variable(FIRST)})
    kind = vector_type(render.buffers[store.buffer], width)
    pointer = f"reinterpret_cast<{kind}*>({store.buffer} + {text(place)})"
    return f"{'write_once' if once else 'write_pack'}({pointer}, {name}_at);"


def declared(linear: str, axes: Iterable[Axis], names: set[str], *, narrow: bool) -> list[str]:
    """Declarations of the axes' variables from one running number, in 32 bits where they suffice."""
    lines: list[str] = []
    inner = indices.ONE
    listed = list(axes)
    for place in reversed(range(len(listed))):
        axis = listed[place]
        value = linear
        if not indices.is_number(inner, 1):
            value += f" / {_divisor(inner, narrow)}"
        if place:
            value += f" % {_divisor(axis.extent, narrow)}"
        if axis.name in names:
            lines.insert(0, f"const int64_t {axis.name} = {value};")
        inner = indices.multiply(axis.extent, inner)
    return lines


def _divisor(extent: Index, narrow: bool) -> str:
    value = grouped(extent)
    return f"(unsigned){value}" if narrow and extent.operator != "int" else value


def grouped(index: Index) -> str:
    """In parentheses unless it is a single number or name."""
    return text(index) if index.operator in ("int", "name") else f"({text(index)})"


def aligned(access: VectorAccess, width: int) -> str:
    """When vectors are aligned, as a host expression; empty where they always are."""
    return " && ".join(f"{grouped(d)} % {width} == 0" for d in access.conditions(width))
