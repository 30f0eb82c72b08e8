"""How the threads of a block bring a tile of one operand of a matrix product into shared memory.

A tile lies as [inner][row or column], whatever the operand's own layout. Neighbouring threads take
neighbours in the operand's memory, four at a time where they are aligned. What does not change from
one tile to the next is computed before the loop.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from kernelblaster.policies.expert import index as indices
from kernelblaster.policies.expert.emission.loops import indented, unravel
from kernelblaster.policies.expert.emission.render import renderer
from kernelblaster.policies.expert.expression import Expression, Load, loads, rebuild, used_names
from kernelblaster.policies.expert.index import Index, row_major, text
from kernelblaster.policies.expert.plan import Axis, Plan
from kernelblaster.policies.expert.product import Operand, Product
from kernelblaster.policies.expert.proofs import separate
from kernelblaster.policies.expert.schedule import LINE_PADDING, TiledProduct
from kernelblaster.tasks.header import C_TYPES

VECTOR_WIDTH = 4


@dataclass(frozen=True)
class TileLoads:
    """The loads of one operand: `name` is left or right, `line` row or column, `block` how many of them
    a tile has."""

    name: str
    line: str
    block: int
    operand: Operand
    k_axis: Axis
    tile: TiledProduct
    plan: Plan

    @property
    def pad(self) -> int:
        """The padding of each line of the shared-memory tile, in elements, so that stores across lines have
        no bank conflicts."""
        return 1 if self.tile.thread_m == 1 else LINE_PADDING

    @property
    def asynchronous(self) -> bool:
        plain = self.operand.plain
        fits = plain is not None and self.plan.buffers[plain.buffer].dtype == "float32"
        return self.tile.asynchronous and fits and self.plan.real == "float"

    @property
    def along_k(self) -> bool:
        return self.operand.along == self.k_axis

    @property
    def width(self) -> int:
        """Elements that a thread reads together. An asynchronous copy cannot turn them around."""
        if self.tile.thread_m == 1 or self.operand.plain is None or self.operand.along is None:
            return 1
        if self.asynchronous and self.along_k:
            return 1
        return VECTOR_WIDTH if divisible(self.operand.aligned, self.plan) else 1

    @property
    def _across(self) -> int:
        """Threads side by side along memory."""
        return (self.tile.block_k if self.along_k else self.block) // self.width

    @property
    def _step(self) -> int:
        """The number of lines of the tile that all threads of a block load in one go."""
        return self.tile.threads // self._across

    @property
    def _lines(self) -> int:
        return self.block if self.along_k else self.tile.block_k

    @property
    def _parts(self) -> int:
        return -(-self._lines // self._step)

    @property
    def _part(self) -> str:
        return "part" if self._parts > 1 else "0"

    @property
    def _next(self) -> str:
        """What waits in registers to go to the tile."""
        return f"{self.name}_next[{self._part}]"

    @property
    def _kind(self) -> str:
        """The type in which elements wait in registers."""
        if self.width > 1 and self.operand.plain is not None:
            return C_TYPES[self.plan.buffers[self.operand.plain.buffer].dtype]
        return self.plan.real

    @cached_property
    def _addresses(self) -> dict[Load, tuple[str, Index, Index]]:
        """For each load the name of its fixed address, that address, and what is added to it."""
        found: dict[Load, tuple[str, Index, Index]] = {}
        for load in loads(self.operand.expression):
            if isinstance(load, Load) and load not in found:
                address = row_major(load.position, self.plan.buffers[load.buffer].shape)
                name = f"{self.name}_at{len(found) or ''}"
                found[load] = (name, *separate(address, self.k_axis.name))
        return found

    def prepare(self) -> list[str]:
        """CUDA statements before the loop over the K axis: which elements of the tile a thread loads, and the
        parts of their addresses that do not change in the loop."""
        across, along = f"threadIdx.x % {self._across}", f"threadIdx.x / {self._across}"
        across += f" * {self.width}" if self.width > 1 else ""
        fast, slow = ("k", self.line) if self.along_k else (self.line, "k")
        lines = [f"const int {self.name}_{fast} = {across}, {self.name}_{slow} = {along};"]
        if self.width > 1:
            lines.append(f"const bool {self.name}_wide = {condition(self.operand.aligned)};")
        count = self._parts if self.along_k else 1
        for name, _, _ in self._addresses.values():
            lines.append(f"int64_t {name}[{count}];")
        each = "part" if count > 1 else "0"
        values = [f"{name}[{each}] = {text(fixed)};" for name, fixed, _ in self._addresses.values()]
        if values:
            body = [f"const int64_t {self.line} = {self._line()};", *unravel(self.line, self.operand.axes)]
            whole = [*body, *values]
            lines += _loop("part", count, whole) if count > 1 else ["{", *indented(whole), "}"]
        if not self.asynchronous:
            packed = f"Pack<{self._kind}, {self.width}>" if self.width > 1 else self._kind
            lines.append(f"{packed} {self.name}_next[{self._parts}];")
        return lines

    def functions(self) -> list[str]:
        """`copy_left`, or `fetch_left` and `stash_left`."""
        if self.asynchronous:
            head = f"auto copy_{self.name} = [&](int buffer, int64_t first) {{"
            return [head, *indented(_loop("part", self._parts, self._guarded(self._copy()))), "};"]
        fetch = _loop("part", self._parts, self._guarded(self._fetch()))
        stash = _loop("part", self._parts, self._guarded(self._stash()))
        return [
            f"auto fetch_{self.name} = [&](int64_t first) {{",
            *indented(fetch),
            "};",
            f"auto stash_{self.name} = [&](int buffer) {{",
            *indented(stash),
            "};",
        ]

    def _guarded(self, body: list[str]) -> list[str]:
        """The statements `body` under a condition that leaves out lines beyond the tile's last, where the
        threads of a block can load more lines than it has."""
        if self._lines % self._step == 0:
            return body
        slow = f"{self.name}_{self.line if self.along_k else 'k'}"
        moving = f" + part * {self._step}" if self._parts > 1 else ""
        return [f"if ({slow}{moving} < {self._lines}) {{", *indented(body), "}"]

    def _line(self, lane: str = "") -> str:
        moving = f" + part * {self._step}" if self.along_k and self._parts > 1 else ""
        return f"first_{self.line} + {self.name}_{self.line}{moving}" + ("" if self.along_k else lane)

    def _inner(self, lane: str = "") -> str:
        moving = "" if self.along_k or self._parts == 1 else f" + part * {self._step}"
        return f"first + {self.name}_k{moving}" + (lane if self.along_k else "")

    def _inside(self) -> str:
        lines = text(Product.extent(self.operand.axes))
        return f"{self.line} < {lines} && {self.k_axis.name} < end"

    def _place(self, lane: str = "") -> str:
        """The element's place in its tile."""
        step = f" + part * {self._step}" if self._parts > 1 else ""
        inner, line = f"{self.name}_k", f"{self.name}_{self.line}"
        inner += lane if self.along_k else step
        line += step if self.along_k else lane
        return f"{self.name}_tile[buffer][{inner}][{line}]"

    def _declared(self, lane: str = "", wanted: set[str] | None = None) -> list[str]:
        return [
            f"const int64_t {self.line} = {self._line(lane)}, {self.k_axis.name} = {self._inner(lane)};",
            *unravel(self.line, self.operand.axes, wanted),
        ]

    def _at(self, load: Load) -> Index:
        name, _, moving = self._addresses[load]
        part = "part" if self.along_k and self._parts > 1 else 0
        return indices.add(indices.element(name, part), moving)

    def _source(self) -> str:
        """Where a plain operand's element, or the first of a pack, lies."""
        assert self.operand.plain is not None
        return f"{self.operand.plain.buffer} + {text(self._at(self.operand.plain))}"

    def _element(self) -> tuple[str, set[str]]:
        """A CUDA expression for the operand's value that uses the addresses of `prepare`, and the names of
        the loop variables that still occur in it."""

        def change(part: Expression) -> Expression:
            return replace(part, position=(self._at(part),)) if isinstance(part, Load) else part

        moved = rebuild(self.operand.expression, change)
        flat = {load.buffer for load in self._addresses}
        buffers = {
            name: replace(buffer, shape=(indices.ONE,)) if name in flat else buffer
            for name, buffer in self.plan.buffers.items()
        }
        render = replace(renderer(self.plan), buffers=buffers)
        return render.expression(moved), used_names([moved], [])

    def _fetch(self) -> list[str]:
        if self.width == 1:
            value, wanted = self._element()
            nothing = "0.0f" if self.plan.real == "float" else "0.0"
            declared = self._declared(wanted=wanted)
            return [*declared, f"{self._next} = {self._inside()} ? {value} : {nothing};"]
        pack = f"Pack<{self._kind}, {self.width}>"
        read = f"value = *reinterpret_cast<const {pack}*>({self._source()});"
        return [
            f"{pack} value = {{}};",
            f"if ({self.name}_wide) {{",
            *indented([*self._declared(wanted=set()), f"if ({self._inside()}) {read}"]),
            "} else {",
            *indented(self._singly(lambda element: f"if ({self._inside()}) value.at[lane] = {element};")),
            "}",
            f"{self._next} = value;",
        ]

    def _stash(self) -> list[str]:
        if self.width == 1:
            return [f"{self._place()} = {self._next};"]
        real = self.plan.real
        if not self.along_k and self._kind == real:
            pack = f"Pack<{real}, {self.width}>"
            return [f"*reinterpret_cast<{pack}*>(&{self._place()}) = {self._next};"]
        value = f"{self._next}.at[lane]"
        value = value if self._kind == real else f"({real}){value}"
        return _loop("lane", self.width, [f"{self._place(' + lane')} = {value};"])

    def _copy(self) -> list[str]:
        """Elements outside are filled with zeros and not read."""
        bytes_ = self.width * 4

        def copy(place: str, source: str, size: int) -> str:
            return f"__pipeline_memcpy_async(&{place}, {source}, {size}, {self._inside()} ? 0 : {size});"

        whole = [*self._declared(wanted=set()), copy(self._place(), self._source(), bytes_)]
        if self.width == 1:
            return whole
        single = self._singly(lambda element: copy(self._place(" + lane"), f"&{element}", 4))
        return [f"if ({self.name}_wide) {{", *indented(whole), "} else {", *indented(single), "}"]

    def _singly(self, statement: Callable[[str], str]) -> list[str]:
        """A statement on each element of a pack, from its own address."""
        plain = self.operand.plain
        assert plain is not None
        element = renderer(self.plan).place(plain.buffer, plain.position)
        return _loop("lane", self.width, [*self._declared(" + lane"), statement(element)])


def divisible(found: Sequence[Index], plan: Plan) -> bool:
    """Whether all are multiples of a pack's width in the primary workload."""
    return all(plan.extent(index) % VECTOR_WIDTH == 0 for index in found)


def condition(found: Sequence[Index]) -> str:
    """The same at run time."""
    width = indices.number(VECTOR_WIDTH)
    return " && ".join(f"{text(Index('%', (index, width)))} == 0" for index in found)


def _loop(name: str, count: int, body: list[str]) -> list[str]:
    if count == 1:
        return body
    head = f"for (int {name} = 0; {name} < {count}; ++{name}) {{"
    return ["#pragma unroll", head, *indented(body), "}"]
