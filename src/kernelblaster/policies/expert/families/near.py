"""Which elements lie side by side along a loop, and the text of moving a few of them at once.

A pack is as many neighbours as a thread moves with one instruction. In the emitted code `first` is
the loop's position at the first of them, and `lane` counts them.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from kernelblaster.policies.expert import index as indices
from kernelblaster.policies.expert.address import alignment
from kernelblaster.policies.expert.expression import (
    Counted,
    Expression,
    Gather,
    Load,
    Operation,
    children,
    walk,
)
from kernelblaster.policies.expert.families.guards import Guards, guarded
from kernelblaster.policies.expert.index import Index, row_major, text
from kernelblaster.policies.expert.plan import Axis, Buffer, Kernel, Plan, Store
from kernelblaster.policies.expert.render import Renderer, used_names
from kernelblaster.records.signature import DTYPE_BYTES
from kernelblaster.tasks.header import C_TYPES

FIRST = "first"
VECTOR_BYTES = 16
NARROW = 2**31  # numbers below this fit in 32 bits


@dataclass(frozen=True)
class Near:
    """Loads and stores of packs along one loop, by the names of their packs. All of `divisors` must be
    divisible by a pack's width. Loads with `guards` are made only where these hold."""

    along: Axis
    reads: Mapping[Load | Gather, str]
    writes: Mapping[Store, str]
    divisors: tuple[Index, ...]
    guards: Mapping[Load | Gather, Guards] = field(default_factory=dict)

    def condition(self, width: int) -> str:
        """When packs are aligned, as a host expression; empty where they always are."""
        found = [d for d in self.divisors if width > 1 and (d.operator != "int" or d.value % width)]
        return " && ".join(f"{_grouped(text(d))} % {width} == 0" for d in found)

    def possible(self, plan: Plan, width: int) -> bool:
        """Whether packs are aligned in the primary workload."""
        return all(plan.extent(divisor) % width == 0 for divisor in self.divisors)

    def width(self, plan: Plan) -> int:
        """Elements of the widest type in 16 bytes; one where nothing lies side by side."""
        names = [load.buffer for load in self.reads] + [store.buffer for store in self.writes]
        widest = max((DTYPE_BYTES[plan.buffers[name].dtype] for name in names), default=VECTOR_BYTES)
        return VECTOR_BYTES // widest


def near(kernel: Kernel, plan: Plan, along: Axis, *, sides: bool = False) -> Near:
    """What a kernel reads and writes side by side along a loop; with `sides`, what it reads on one side of a
    boundary too."""
    render = Renderer(plan.buffers)
    inner = {axis.name for axis in kernel.reduced} | {along.name}
    divisors: list[Index] = [along.extent, *([along.part.length] if along.part else [])]
    reads: dict[Load | Gather, str] = {}
    always = {load for expression in kernel.expressions for load in _unconditional(expression)}
    sided = guarded(kernel.expressions, along.name, plan.sizes[0]) if sides else {}
    guards: dict[Load | Gather, Guards] = {}
    for load in dict.fromkeys(kernel.loads()):
        sure = load in always or _harmless(load, kernel, plan)
        if not sure and load not in sided:
            continue
        if isinstance(load, Gather) and used_names([load.where], []) & inner:
            continue
        found = alignment(render.address(load), along.name, plan.sizes[0])
        if found is not None:
            reads[load] = _free_name(load.buffer, reads.values())
            divisors += found
            if not sure:
                guards[load] = sided[load]
                divisors += [guard.boundary for guard in sided[load]]
    writes: dict[Store, str] = {}
    for store in kernel.stores:
        address = row_major(store.position, plan.buffers[store.buffer].shape)
        found = alignment(address, along.name, plan.sizes[0])
        if found is not None:
            writes[store] = store.buffer
            divisors += found
    return Near(along, reads, writes, tuple(dict.fromkeys(divisors)), guards)


def _unconditional(expression: Expression) -> Iterator[Load | Gather]:
    """Loads that are made whatever the values are."""
    if isinstance(expression, Load | Gather):
        yield expression
    sure = children(expression)
    if isinstance(expression, Operation) and expression.name == "where":
        sure = sure[:1]
    for part in sure:
        yield from _unconditional(part)


def _harmless(load: Load | Gather, kernel: Kernel, plan: Plan) -> bool:
    """Whether a load stays within its buffer at every point of the loops."""
    shape = plan.buffers[load.buffer].shape
    address = row_major(load.position, shape)
    if isinstance(load, Gather) or any(mark in text(address) for mark in "-%/"):
        return False
    for sizes in plan.sizes:
        axes = (*kernel.axes, *kernel.reduced)
        ends = {axis.name: indices.evaluate(axis.extent, sizes) - 1 for axis in axes}
        if indices.evaluate(address, {**sizes, **ends}) >= indices.evaluate(indices.product(shape), sizes):
            return False
    return True


@dataclass(frozen=True)
class NearRenderer(Renderer):
    """Writes elements of packs as such, and all others by their addresses."""

    reads: Mapping[Load | Gather, str] = field(default_factory=dict)
    writes: Mapping[tuple[str, tuple[Index, ...]], str] = field(default_factory=dict)

    def element(self, load: Load | Gather) -> str:
        return f"{self.reads[load]}_at.at[lane]" if load in self.reads else super().element(load)

    def place(self, buffer: str, position: tuple[Index, ...]) -> str:
        if (buffer, position) in self.writes:
            return f"{self.writes[buffer, position]}_at.at[lane]"
        return super().place(buffer, position)


def near_renderer(render: Renderer, found: Near) -> NearRenderer:
    writes = {(store.buffer, store.position): name for store, name in found.writes.items()}
    return NearRenderer(render.buffers, render.real, reads=found.reads, writes=writes)


def pack_type(buffer: Buffer, width: str = "WIDTH") -> str:
    return f"Pack<{C_TYPES[buffer.dtype]}, {width}>"


def pointer_text(load: Load | Gather, render: Renderer, along: Axis, width: str = "WIDTH") -> str:
    """Where the pack is that starts at `first`."""
    place = indices.replace(render.address(load), {along.name: indices.variable(FIRST)})
    kind = pack_type(render.buffers[load.buffer], width)
    return f"reinterpret_cast<const {kind}*>({load.buffer} + {text(place)})"


def read_text(load: Load | Gather, render: Renderer, along: Axis, *, once: bool) -> str:
    """The pack that starts at `first`."""
    pointer = pointer_text(load, render, along)
    return f"read_once({pointer})" if once else f"*{pointer}"


def write_text(
    store: Store, name: str, render: Renderer, along: Axis, *, once: bool, width: str = "WIDTH"
) -> str:
    address = row_major(store.position, render.buffers[store.buffer].shape)
    place = indices.replace(address, {along.name: indices.variable(FIRST)})
    kind = pack_type(render.buffers[store.buffer], width)
    pointer = f"reinterpret_cast<{kind}*>({store.buffer} + {text(place)})"
    return f"{'write_once' if once else 'write_pack'}({pointer}, {name}_at);"


def mentioned(expressions: Iterable[Expression], found: Near) -> set[str]:
    """Loop variables that are used other than for the places of packs."""
    names: set[str] = set()
    for expression in expressions:
        for part in walk(expression):
            if isinstance(part, Counted):
                names |= indices.names(part.index)
            elif isinstance(part, Load | Gather) and part not in found.reads:
                names = names.union(*(indices.names(index) for index in part.position))
    return names


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


def fits(plan: Plan, extent: Index) -> bool:
    """Whether a count fits in 32 bits in every workload."""
    return all(indices.evaluate(extent, sizes) < NARROW for sizes in plan.sizes)


def _divisor(extent: Index, narrow: bool) -> str:
    value = _grouped(text(extent))
    return f"(unsigned){value}" if narrow and extent.operator != "int" else value


def _grouped(value: str) -> str:
    return value if value.replace("_", "").isalnum() else f"({value})"


def _free_name(name: str, taken: Iterable[str]) -> str:
    free, number = name, 2
    while free in taken:
        free, number = f"{name}{number}", number + 1
    return free
