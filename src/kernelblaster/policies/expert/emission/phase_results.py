"""Emits the last part of the kernels of transposed convolutions with a stride (emission/phases.py): a warp
brings its results into the order of memory, by way of shared memory, computes what is fused behind the
product, and stores them. The first part of these kernels also takes from here which cell (results that read
the same elements of the operand) a column of the product is."""

from dataclasses import dataclass
from math import prod

from kernelblaster.policies.expert import index as indices
from kernelblaster.policies.expert.axis import Axis
from kernelblaster.policies.expert.contraction import extent
from kernelblaster.policies.expert.cuda.statements import (
    BARRIER,
    BREAK,
    CONTINUE,
    Declaration,
    Declarator,
    Do,
    Statement,
    assign,
    const,
    unrolled,
    when,
)
from kernelblaster.policies.expert.cuda.terms import (
    AUTO,
    FLOAT,
    INT,
    INT64,
    Braces,
    Choice,
    CudaType,
    LiteralTerm,
    Local,
    Term,
    any_of,
    call,
    cast,
    term,
)
from kernelblaster.policies.expert.emission.places import local, unravel, unravel_term
from kernelblaster.policies.expert.emission.stores import store_statement
from kernelblaster.policies.expert.emission.values import index_term, values_of
from kernelblaster.policies.expert.expression import Load, Operation, loads
from kernelblaster.policies.expert.index import Index
from kernelblaster.policies.expert.kernel import Kernel
from kernelblaster.policies.expert.phases import Dimension, Phases
from kernelblaster.policies.expert.plan import Plan
from kernelblaster.policies.expert.schedules.phases import STAGED_ROWS, InterleavedPhases
from kernelblaster.policies.expert.vector_access import fits

SUMS, SCALE, MEMORY, FACTORS, COLUMN = local("sums", "scale", "memory", "factors", "column")
FIRST_COLUMN, RIGHT_COLUMN, WARP, WARP_ROW, WARP_COLUMN = local(
    "first_column", "right_column", "warp", "warp_row", "warp_column"
)
LANE, BLOCK_ROW, STAGED, OUTER, FRAGMENT = local("lane", "block_row", "staged", "outer", "fragment")
HALF, INNER, J, E, SLOT = local("half", "inner", "j", "e", "slot")
PLACE, LINE, ROW = local("place", "line", "row")


@dataclass(frozen=True)
class PhaseResults:
    """Writes the C++ statements that store the results of `kernel`, a transposed convolution with a stride in
    `plan`. `tile` is its layout on the GPU. `found` describes what it computes: which of its axes are images,
    output channels and input channels, and which elements of the operand each result reads."""

    kernel: Kernel
    plan: Plan
    tile: InterleavedPhases
    found: Phases

    def index(self, index: Index) -> Term:
        return index_term(index, self.plan.sizes[0])

    @property
    def _cells(self) -> tuple[Axis, ...]:
        """The axes of all columns: images, and cells along each dimension. The last has further columns
        before its cells."""
        last, reach = self.found.last, indices.number(self.found.last.reach)
        outer = tuple(_cell(dimension, dimension.cells) for dimension in self.found.outer)
        return (*self.found.images, *outer, _cell(last, indices.add(last.cells, reach)))

    @property
    def _packed(self) -> tuple[Load, Load]:
        """Returns two loads: of the packed filters' element, and of the power of two by which its row was
        divided."""
        assert isinstance(self.found.filters, Operation)
        packed, step = loads(self.found.filters)
        assert isinstance(packed, Load) and isinstance(step, Load)
        return packed, step

    @property
    def _live(self) -> list[int]:
        """The numbers of the phases that have taps."""
        live = self.found.live
        return [number for number, phase in enumerate(self.found.phases) if phase in live]

    def _unravelled(self, column: Term) -> list[Statement]:
        axes = self._cells
        narrow = fits(self.plan, extent(axes))
        counted: Term = cast("unsigned", column) if narrow else column
        names = {axis.name for axis in axes if not axis.once}
        return unravel_term(counted, axes, names, self.plan.sizes[0], narrow=narrow)

    def _results(self) -> list[Statement]:
        """Statements that bring the results of a warp into memory order, a few rows of channels at a time,
        compute what is fused behind the product, and store it."""
        found, tile = self.found, self.tile
        m, n = tile.fragments
        line = tile.staged_line(found.last.stride)
        type_ = f"float (*)[{line}]"
        lines = cast(CudaType(type_), MEMORY)
        return [
            assign(FACTORS[RIGHT_COLUMN], SCALE),
            BARRIER,
            Declaration(AUTO, (Declarator("staged", lines + WARP * STAGED_ROWS),)),
            *self._phase_numbers(),
            unrolled(
                "outer",
                prod(dimension.stride for dimension in found.outer),
                [
                    unrolled(
                        "fragment",
                        m,
                        [
                            unrolled(
                                "half",
                                2,
                                [
                                    Do(call("__syncwarp")),
                                    *self._staged(n),
                                    Do(call("__syncwarp")),
                                    self._stored(n * 8 * found.last.stride),
                                ],
                            )
                        ],
                    )
                ],
            ),
        ]

    def _phase_numbers(self) -> list[Statement]:
        """Declares which sums each phase has, -1 for none, if some have none."""
        count = len(self.found.phases)
        if len(self._live) == count:
            return []
        places = [self._live.index(number) if number in self._live else -1 for number in range(count)]
        listed = Braces(tuple(term(place) for place in places))
        return [Declaration(INT, (Declarator("numbers", listed, (term(count),)),), "constexpr")]

    def _staged(self, n: int) -> list[Statement]:
        stride = self.found.last.stride
        phase: Term = OUTER * stride + INNER
        declared: list[Statement] = []
        value: Term = SUMS[phase][FRAGMENT][J][HALF * 2 + E]
        if len(self._live) < len(self.found.phases):
            declared = [const(INT, "phase", Local("numbers")[phase])]
            place = Choice(Local("phase") < 0, term(0), Local("phase"))
            value = Choice(Local("phase") < 0, LiteralTerm("0.0f"), SUMS[place][FRAGMENT][J][HALF * 2 + E])
        write = assign(STAGED[LANE / 4][(J * 8 + LANE % 4 * 2 + E) * stride + INNER], value)
        return [unrolled("inner", stride, [*declared, unrolled("j", n, [unrolled("e", 2, [write])])])]

    def _stored(self, slots: int) -> Statement:
        """The loop over a warp's results along memory, of which each lane stores one after another."""
        found, tile = self.found, self.tile
        last, reach = found.last, found.last.reach
        *outer, cell = self._cells[len(found.images) :]
        rows: list[Statement] = [
            const(INT64, "row", BLOCK_ROW * tile.block_m + WARP_ROW * 16 + FRAGMENT * 16 + HALF * 8 + LINE),
            when(ROW >= self.index(extent(found.rows)), BREAK),
            *unravel("row", found.rows, self.plan.sizes[0]),
            const(
                FLOAT,
                self.kernel.stages[0].name,
                STAGED[LINE][PLACE]
                * FACTORS[Local("lane_column")]
                * values_of(self.plan).expression(self._packed[1]),
            ),
            *(store_statement(store, self.plan, values_of(self.plan)) for store in self.kernel.stores),
        ]
        left = [when(PLACE >= slots, BREAK)] if slots % 32 else []
        before = [] if reach == 0 else [when(Local("lane_column") < reach, CONTINUE)]
        begun = [] if reach == 0 else [when(self.index(cell.index) < reach, CONTINUE)]
        phase: Term = OUTER
        placed: list[Statement] = []
        for dimension, axis in reversed(list(zip(found.outer, outer, strict=True))):
            placed += self._result(dimension, self.index(axis.index), phase % dimension.stride)
            phase = phase / dimension.stride
        at = self.index(indices.subtract(cell.index, indices.number(reach)))
        body: list[Statement] = [
            const(INT, "place", SLOT * 32 + LANE),
            *left,
            const(INT, "lane_column", WARP_COLUMN + PLACE / last.stride),
            const(INT64, "column", FIRST_COLUMN + Local("lane_column")),
            *before,
            when(COLUMN >= self.index(extent(self._cells)), CONTINUE),
            *self._unravelled(COLUMN),
            *begun,
            *self._result(last, at, PLACE % last.stride),
            *placed,
            unrolled("line", STAGED_ROWS, rows),
        ]
        return unrolled("slot", -(-slots // 32), body)

    def _result(self, dimension: Dimension, cell: Term, phase: Term) -> list[Statement]:
        """Declares the variable of a dimension's axis, the index of a result, from its cell and phase; skips
        what lies outside of the results."""
        name = dimension.axis.name
        first = dimension.first * dimension.stride - dimension.ahead
        value = (
            cell * dimension.stride + phase + first
            if first >= 0
            else cell * dimension.stride + phase - -first
        )
        ends = [Local(name) >= self.index(dimension.axis.extent)]
        ends += [Local(name) < 0] if first < 0 else []
        return [const(INT64, name, value), when(any_of(ends), CONTINUE)]


def _cell(dimension: Dimension, count: Index) -> Axis:
    return Axis(f"{dimension.axis.name}_cell", count)
