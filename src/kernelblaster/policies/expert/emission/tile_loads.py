"""Writes the code by which the threads of a block bring a tile of one operand of a matrix product into shared
memory; tiled_product.py uses it.

A tile is laid out as [k][row or column], whatever the operand's own layout. Neighbouring threads read
neighbours in the operand's memory, four elements each if these are aligned. Parts of addresses that are the
same for all tiles are computed before the loop over tiles.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from kernelblaster.policies.expert import index as indices
from kernelblaster.policies.expert.axis import Axis
from kernelblaster.policies.expert.cuda.statements import (
    Do,
    If,
    LambdaParameter,
    Scope,
    Statement,
    assign,
    const,
    consts,
    declare,
    function,
    once_or_unrolled,
    unrolled,
    when,
)
from kernelblaster.policies.expert.cuda.terms import (
    BOOL,
    INT,
    INT64,
    THREAD,
    Braces,
    Choice,
    CudaType,
    Given,
    Infix,
    Local,
    Term,
    address_of,
    all_of,
    cast,
    kind,
    read,
    term,
    vector_pointer,
)
from kernelblaster.policies.expert.emission.functions import pack_type, pipeline_memcpy_async
from kernelblaster.policies.expert.emission.places import local, unravel
from kernelblaster.policies.expert.emission.values import NOTHING, Values, c_type, index_term, values_of
from kernelblaster.policies.expert.expression import Expression, Load, loads, rebuild, used_names
from kernelblaster.policies.expert.index import Index, row_major
from kernelblaster.policies.expert.plan import Plan
from kernelblaster.policies.expert.product import Operand, Product
from kernelblaster.policies.expert.proofs import separate
from kernelblaster.policies.expert.schedules.products import LINE_PADDING, TiledProduct

VECTOR_WIDTH = 4
PART, LANE, BUFFER, FIRST, VALUE = local("part", "lane", "buffer", "first", "value")
TAKES_BUFFER, TAKES_FIRST = LambdaParameter(INT, "buffer"), LambdaParameter(INT64, "first")


@dataclass(frozen=True)
class TileLoads:
    """Writes the code that loads one operand (`operand`) of a matrix product in `plan` into shared memory,
    tile by tile. For the left operand, `name` is "left", `line` is "row", and a tile has `block` rows; for
    the right one, `name` is "right", `line` is "column", and a tile has `block` columns. Names in the emitted
    code are made of these words. A row or column of the tile has `tile.block_k` elements, along the K axis
    `k_axis`. `tile` is the layout of the whole product."""

    name: str
    line: str
    block: int
    operand: Operand
    k_axis: Axis
    tile: TiledProduct
    plan: Plan

    @property
    def pad(self) -> int:
        """How many unused elements follow the elements of each index k in the operand's tile in shared
        memory, so that storing elements with several k at once has no bank conflicts. For each k, the tile
        has one element of each of its rows (left operand) or columns (right operand)."""
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
        """How many elements a thread reads with one instruction, 4 or 1. It is 4 if threads compute several
        rows of results and the operand is read as it is in memory, contiguous and aligned in the primary
        workload. Even then it is 1 for an operand that is contiguous along K and copied asynchronously: its
        elements must be transposed on their way to the tile, so that each is copied by itself."""
        if self.tile.thread_m == 1 or self.operand.plain is None or self.operand.along is None:
            return 1
        if self.asynchronous and self.along_k:
            return 1
        return VECTOR_WIDTH if divisible(self.operand.aligned, self.plan) else 1

    @property
    def function(self) -> Local:
        """The name of the emitted lambda that loads the next tile: `copy_<name>`, which copies asynchronously
        to shared memory, or `fetch_<name>`, which loads to registers."""
        return Local(f"{'copy' if self.asynchronous else 'fetch'}_{self.name}")

    @property
    def _across(self) -> int:
        """How many threads it takes to load one line of the tile; a line runs along the dimension in which
        the operand is contiguous."""
        return (self.tile.block_k if self.along_k else self.block) // self.width

    @property
    def _step(self) -> int:
        """How many lines of the tile all threads of a block load in one go; a line runs along the dimension
        in which the operand is contiguous."""
        return self.tile.threads // self._across

    @property
    def _lines(self) -> int:
        return self.block if self.along_k else self.tile.block_k

    @property
    def _parts(self) -> int:
        return -(-self._lines // self._step)

    @property
    def _part(self) -> Term:
        return PART if self._parts > 1 else term(0)

    @property
    def _moved(self) -> Term | int:
        """How many lines of the tile lie between the first one that a thread loads and the one that it loads
        in the iteration `part` (a variable of the emitted loop); 0 if there is only one iteration."""
        return PART * self._step if self._parts > 1 else 0

    @property
    def _next(self) -> Term:
        """The C++ variable, in registers, of an element that this thread has read of the next tile and not
        yet stored to shared memory. It is an element of the array `<name>_next`, as a thread reads several
        parts of a tile."""
        return Local(f"{self.name}_next")[self._part]

    @property
    def _type(self) -> CudaType:
        """The C++ type of elements that wait in registers: the tensor's own for vectors, else that of the
        arithmetic."""
        if self.width > 1 and self.operand.plain is not None:
            return c_type(self.plan.buffers[self.operand.plain.buffer].dtype)
        return kind(self.plan.real)

    @property
    def _own_k(self) -> Local:
        return Local(f"{self.name}_k")

    @property
    def _own_line(self) -> Local:
        return Local(f"{self.name}_{self.line}")

    @cached_property
    def _addresses(self) -> Mapping[Load, tuple[str, Index, Index]]:
        """Returns for each load that the operand's value needs (the name of a C++ array; the part of the
        load's address that is the same for all tiles, which is kept in this array; the part that changes
        along the K axis)."""
        found: dict[Load, tuple[str, Index, Index]] = {}
        for load in loads(self.operand.expression):
            if isinstance(load, Load) and load not in found:
                address = row_major(load.position, self.plan.buffers[load.buffer].shape)
                name = f"{self.name}_at{len(found) or ''}"
                found[load] = (name, *separate(address, self.k_axis.name))
        return found

    def _index(self, index: Index) -> Term:
        return index_term(index, self.plan.sizes[0])

    def prepare(self) -> list[Statement]:
        """Returns C++ statements to be put before the loop over the K axis. They compute which elements of a
        tile a thread loads, and those parts of the elements' addresses that are the same for all tiles."""
        across, along = THREAD % self._across * self.width, THREAD / self._across
        fast, slow = (self._own_k, self._own_line) if self.along_k else (self._own_line, self._own_k)
        found: list[Statement] = [consts(INT, **{fast.name: across, slow.name: along})]
        if self.width > 1:
            found.append(const(BOOL, f"{self.name}_wide", condition(self.operand.aligned, self.plan)))
        count = self._parts if self.along_k else 1
        found += [declare(INT64, name, None, count) for name, _, _ in self._addresses.values()]
        each = PART if count > 1 else term(0)
        values = [assign(Local(n)[each], self._index(fixed)) for n, fixed, _ in self._addresses.values()]
        if values:
            place: list[Statement] = [
                const(INT64, self.line, self._line()),
                *unravel(self.line, self.operand.axes, self.plan.sizes[0]),
            ]
            whole = (*place, *values)
            found.append(unrolled("part", count, whole) if count > 1 else Scope(whole))
        if not self.asynchronous:
            packed = pack_type(self._type, self.width) if self.width > 1 else self._type
            found.append(declare(packed, f"{self.name}_next", None, self._parts))
        return found

    def functions(self) -> list[Statement]:
        """Returns the C++ declarations of the lambdas that bring a tile to shared memory. There is either
        one, `copy_<name>`, which copies asynchronously; or there are two: `fetch_<name>` loads the tile to
        registers, and `stash_<name>` stores it from there to shared memory."""

        def over_parts(body: list[Statement]) -> list[Statement]:
            return once_or_unrolled("part", self._parts, self._guarded(body))

        if self.asynchronous:
            return [function(self.function.name, (TAKES_BUFFER, TAKES_FIRST), over_parts(self._copy()))]
        return [
            function(self.function.name, (TAKES_FIRST,), over_parts(self._fetch())),
            function(f"stash_{self.name}", (TAKES_BUFFER,), over_parts(self._stash())),
        ]

    def _guarded(self, body: list[Statement]) -> list[Statement]:
        """The statements `body` under a condition that leaves out lines beyond the tile's last, if the
        threads of a block load more lines than the tile has; else unchanged."""
        if self._lines % self._step == 0:
            return body
        slow = self._own_line if self.along_k else self._own_k
        return [when(slow + self._moved < self._lines, *body)]

    def _line(self, lane: Term | int = 0) -> Term:
        moved = self._moved if self.along_k else lane
        return Local(f"first_{self.line}") + self._own_line + moved

    def _inner(self, lane: Term | int = 0) -> Term:
        return FIRST + self._own_k + (lane if self.along_k else self._moved)

    def _inside(self) -> Term:
        lines = self._index(Product.extent(self.operand.axes))
        return Infix("&&", Local(self.line) < lines, Local(self.k_axis.name) < Local("end"))

    def _place(self, lane: Term | int = 0) -> Term:
        """The C++ lvalue of the element of the shared-memory tile that this thread writes; `lane` is its
        number within a vector."""
        inner = self._own_k + (lane if self.along_k else self._moved)
        line = self._own_line + (self._moved if self.along_k else lane)
        return Local(f"{self.name}_tile")[BUFFER][inner][line]

    def _declared(self, lane: Term | int = 0, wanted: set[str] | None = None) -> list[Statement]:
        numbers = {self.line: self._line(lane), self.k_axis.name: self._inner(lane)}
        return [consts(INT64, **numbers), *unravel(self.line, self.operand.axes, self.plan.sizes[0], wanted)]

    def _at(self, load: Load) -> Index:
        name, _, moving = self._addresses[load]
        part = "part" if self.along_k and self._parts > 1 else 0
        return indices.add(indices.element(name, part), moving)

    def _source(self) -> Term:
        """The C++ address in global memory of the element that this thread loads next, or of its vector's
        first element; only for an operand that is a tensor as it is, not computed."""
        assert self.operand.plain is not None
        return Given(self.operand.plain.buffer) + self._index(self._at(self.operand.plain))

    def _element(self) -> tuple[Term, set[str]]:
        """The operand's value as a C++ expression that uses the addresses computed by `prepare`, and the
        names of the loop variables that still occur in it."""

        def change(part: Expression) -> Expression:
            return replace(part, position=(self._at(part),)) if isinstance(part, Load) else part

        moved = rebuild(self.operand.expression, change)
        flat = {load.buffer for load in self._addresses}
        buffers = {
            name: replace(buffer, shape=(indices.ONE,)) if name in flat else buffer
            for name, buffer in self.plan.buffers.items()
        }
        values = Values(buffers, self.plan.sizes[0], self.plan.real)
        return values.expression(moved), used_names([moved], [])

    def _fetch(self) -> list[Statement]:
        if self.width == 1:
            value, wanted = self._element()
            chosen = Choice(self._inside(), value, NOTHING[self.plan.real])
            return [*self._declared(wanted=wanted), assign(self._next, chosen)]
        pack = pack_type(self._type, self.width)
        whole = when(self._inside(), assign(VALUE, read(vector_pointer(pack, self._source()))))

        def single(element: Term) -> Statement:
            return when(self._inside(), assign(VALUE.field("at")[LANE], element))

        return [
            declare(pack, "value", Braces()),
            If(self._wide, (*self._declared(wanted=set()), whole), (self._singly(single),)),
            assign(self._next, VALUE),
        ]

    @property
    def _wide(self) -> Term:
        return Local(f"{self.name}_wide")

    def _stash(self) -> list[Statement]:
        if self.width == 1:
            return [assign(self._place(), self._next)]
        real = kind(self.plan.real)
        if not self.along_k and self._type == real:
            pack = pack_type(real, self.width)
            return [assign(read(vector_pointer(pack, address_of(self._place()), const=False)), self._next)]
        value = self._next.field("at")[LANE]
        value = value if self._type == real else cast(real, value)
        return [unrolled("lane", self.width, [assign(self._place(LANE), value)])]

    def _copy(self) -> list[Statement]:
        """Statements that copy this thread's elements to the tile asynchronously (`cp.async`); elements
        outside the operand are not read but filled with zeros."""

        def copy(place: Term, source: Term, size: int) -> Statement:
            left_out = Choice(self._inside(), term(0), term(size))
            return Do(pipeline_memcpy_async(address_of(place), source, size, left_out))

        whole = [*self._declared(wanted=set()), copy(self._place(), self._source(), self.width * 4)]
        if self.width == 1:
            return whole
        single = self._singly(lambda element: copy(self._place(LANE), address_of(element), 4))
        return [If(self._wide, tuple(whole), (single,))]

    def _singly(self, statement: Callable[[Term], Statement]) -> Statement:
        """For vectors that are not aligned: the loop over the elements of a vector with `statement(element)`
        for each, where `element` is the C++ expression that reads it from its own address."""
        plain = self.operand.plain
        assert plain is not None
        element = values_of(self.plan).place(plain.buffer, plain.position)
        return unrolled("lane", self.width, [*self._declared(LANE), statement(element)])


def divisible(found: Sequence[Index], plan: Plan) -> bool:
    """True if all indices in `found` are multiples of 4, the number of elements of a vector, in the primary
    workload (the sizes that are timed) of the `plan`."""
    return all(plan.extent(index) % VECTOR_WIDTH == 0 for index in found)


def condition(found: Sequence[Index], plan: Plan) -> Term:
    """Returns the C++ condition that all indices in `found` (at least one) are multiples of 4, the number of
    elements of a vector, at the sizes of a launch; `plan` has the names of the sizes."""
    tests = [(index_term(index, plan.sizes[0]) % VECTOR_WIDTH).equals(0) for index in found]
    every = all_of(tests)
    assert every is not None
    return every
