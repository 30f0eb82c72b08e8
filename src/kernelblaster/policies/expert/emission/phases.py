"""Emits transposed convolutions with a stride as matrix products on tensor cores. A block computes all
results of its cells; the results of a cell read the same elements of the operand (phases.py,
device_code/phases.cuh).

The columns of the product are cells. In front of each line of cells (those along the last dimension) there
are further columns, for the elements of the operand that the first cells read before their own. In front of
the cells of each tile there are as many. One tile of the operand therefore serves all taps along the last
dimension: for a further tap, it is read some columns before. Results of the further columns are not stored.
"""

from dataclasses import dataclass
from math import prod

from kernelblaster.policies.expert import index as indices
from kernelblaster.policies.expert.axis import Axis
from kernelblaster.policies.expert.contraction import extent
from kernelblaster.policies.expert.cuda.headers import header
from kernelblaster.policies.expert.cuda.source import Emitted
from kernelblaster.policies.expert.cuda.statements import (
    BARRIER,
    Declaration,
    Declarator,
    Do,
    LambdaParameter,
    Statement,
    assign,
    const,
    consts,
    declare,
    function,
    loop,
    shared_memory,
    unrolled,
    when,
)
from kernelblaster.policies.expert.cuda.terms import (
    AUTO,
    BLOCK,
    BOOL,
    FLOAT,
    INT,
    INT64,
    THREAD,
    UNSIGNED,
    Braces,
    Choice,
    CudaType,
    DeviceFunction,
    Given,
    LiteralTerm,
    Local,
    Term,
    all_of,
    any_of,
    call,
    cast,
    read,
    term,
)
from kernelblaster.policies.expert.emission.functions import (
    pipeline_commit,
    pipeline_memcpy_async,
    pipeline_wait_prior,
    scale_for,
)
from kernelblaster.policies.expert.emission.launch import launched
from kernelblaster.policies.expert.emission.phase_results import (
    COLUMN,
    FACTORS,
    FIRST_COLUMN,
    MEMORY,
    PLACE,
    RIGHT_COLUMN,
    SCALE,
    SUMS,
    WARP,
    WARP_COLUMN,
    WARP_ROW,
    PhaseResults,
)
from kernelblaster.policies.expert.emission.places import local, unravel
from kernelblaster.policies.expert.index import row_major
from kernelblaster.policies.expert.kernel import Kernel
from kernelblaster.policies.expert.phases import Dimension, Phases, as_phases
from kernelblaster.policies.expert.plan import Plan
from kernelblaster.policies.expert.proofs import separate
from kernelblaster.policies.expert.schedules.phases import LINE_PADDING, InterleavedPhases

SCHEDULES = (InterleavedPhases,)
PHASES = header("phases")
LARGEST, OUTGROWN, PUT, RESCALE, MULTIPLY = (
    DeviceFunction(name, PHASES)
    for name in ("largest_finite", "outgrown", "put_column", "rescale_phases", "multiply_phases")
)
WORD = CudaType("uint32_t")
BUFFER, STEP, STEPS, FIRST, POINT = local("buffer", "step", "steps", "first", "point")
POINTS, VALUES, FURTHER, GROUP, LEFT_TILE = local("points", "values", "further", "group", "left_tile")
RIGHT_TILE, LARGEST_BITS, RIGHT_PART, BLOCK_ROWS, K = local(
    "right_tile", "largest", "right_part", "block_rows", "k"
)
PART, ACTIVE, VECTOR = local("part", "active", "vector")
VECTOR_BYTES = 16
RESIDENT = 256  # threads of an SM, which leave 255 registers to each
MANY_SUMS = 64  # of a thread, beside which there is no room for further blocks


def emit(kernel: Kernel, plan: Plan) -> Emitted:
    found, schedule = as_phases(kernel, plan), kernel.schedule
    assert isinstance(found, Phases) and isinstance(schedule, InterleavedPhases)
    return PhasesKernel(kernel, plan, schedule, found).emitted()


@dataclass(frozen=True)
class PhasesKernel(PhaseResults):
    """Writes the body of one kernel as C++ statements: a transposed convolution with a stride in the layout
    `InterleavedPhases`, in which a block computes all results that read the same elements of the operand.
    Each method writes one part of it."""

    @property
    def _taps(self) -> tuple[Axis, ...]:
        """The axes of the taps over which the kernel goes step by step."""
        return tuple(dimension.taps for dimension in self.found.outer if not dimension.taps.once)

    @property
    def _columns(self) -> int:
        """How many columns of a tile have results that are stored."""
        return self.tile.block_n - self.found.last.reach

    def emitted(self) -> Emitted:
        found, tile = self.found, self.tile
        m, n = tile.fragments
        sums = len(self._live) * m * n * 4
        nest = tile.nest(self._cells, found.rows, self._taps, (found.channel,))
        tiles = indices.tiles(extent(self._cells), self._columns)
        blocks = indices.multiply(tiles, indices.tiles(extent(found.rows), tile.block_m))
        body = [*self._threads(), *self._memory(), *self._copy(), *self._put(), *self._loop()]
        return launched(
            nest,
            self.plan.sizes[0],
            [*body, *self._results()],
            blocks=self.index(blocks),
            shared=tile.shared_bytes(len(self._live), found.last.reads, found.last.stride),
            blocks_per_sm=max(1, (RESIDENT if sums > MANY_SUMS else 2 * RESIDENT) // tile.threads),
        )

    def _threads(self) -> list[Statement]:
        """Statements that compute which tile the block has, which column of it this thread gathers, and where
        its warp's results lie in it."""
        tile, found = self.tile, self.found
        m, n = tile.fragments
        rows = self.index(indices.tiles(extent(found.rows), tile.block_m))
        first = BLOCK / BLOCK_ROWS * self._columns - found.last.reach
        line = self.index(self._cells[-1].extent)
        first_line = Choice(FIRST_COLUMN < 0, term(0), FIRST_COLUMN) / line
        inside = all_of([COLUMN >= 0, COLUMN < self.index(extent(self._cells))])
        assert inside is not None
        return [
            consts(INT64, block_rows=rows, block_row=BLOCK % BLOCK_ROWS),
            const(INT64, "first_column", first),
            consts(INT, warp=THREAD / 32, lane=THREAD % 32),
            consts(INT, warp_row=WARP / tile.warps_n * m, warp_column=WARP % tile.warps_n * (n * 8)),
            consts(INT, right_column=THREAD % tile.block_n, right_part=THREAD / tile.block_n),
            const(INT64, "column", FIRST_COLUMN + RIGHT_COLUMN),
            const(BOOL, "in_columns", inside),
            *self._unravelled(COLUMN),
            const(INT, "group", (Choice(COLUMN < 0, term(0), COLUMN)) / line - first_line),
        ]

    def _memory(self) -> list[Statement]:
        found, tile = self.found, self.tile
        m, n = tile.fragments
        live, taps = len(self._live), found.last.reads
        left, _ = tile.tile_words(live, taps)
        fragments = f"uint4 (*)[{taps}][{live}][{tile.block_k // 16}][{tile.block_m // 16}][32]"
        pairs = f"uint32_t (*)[{tile.block_k // 2}][{tile.block_n + LINE_PADDING}]"
        behind = tile.shared_bytes(live, taps, found.last.stride) // 4 - 2 * tile.block_n
        largest = cast(CudaType("unsigned*"), MEMORY + behind)
        factors = cast(CudaType("float*"), MEMORY + (behind + tile.block_n))
        points = self.index(extent(self._taps))
        steps = indices.tiles(found.channel.extent, tile.block_k)
        padding = RIGHT_TILE[PLACE / (tile.block_k // 2 * LINE_PADDING)]
        padding = padding[PLACE / LINE_PADDING % (tile.block_k // 2)][PLACE % LINE_PADDING]
        return [
            shared_memory(WORD, "memory", 16),
            Declaration(AUTO, (Declarator("left_tile", cast(CudaType(fragments), MEMORY)),)),
            Declaration(AUTO, (Declarator("right_tile", cast(CudaType(pairs), MEMORY + 2 * left)),)),
            Declaration(AUTO, (Declarator("largest", largest),)),
            Declaration(AUTO, (Declarator("factors", factors),)),
            loop("place", THREAD, tile.block_k * LINE_PADDING, [assign(padding, 0)], step=tile.threads),
            consts(INT, points=points, steps=POINTS * self.index(steps)),
            declare(FLOAT, "sums", Braces(), live, m, n, 4),
            declare(FLOAT, "values", None, self._gathered),
            declare(FLOAT, "scale", scale_for(LiteralTerm("0.0f"))),
        ]

    @property
    def _gathered(self) -> int:
        """How many terms of a column each thread gathers."""
        return self.tile.block_k * self.tile.block_n // self.tile.threads

    def _copy(self) -> list[Statement]:
        """Declares the lambda `copy(buffer, step)`, which starts to copy the filters of a step to shared
        memory, and reads this thread's column of the operand. All taps follow each other with the same
        channels, whose elements are then in the cache."""
        start = [
            consts(INT, point=STEP % POINTS, first=STEP / POINTS * self.tile.block_k),
            *unravel("point", self._taps, self.plan.sizes[0]),
        ]
        body = [*start, *self._copy_left(), Do(pipeline_commit()), *self._gather()]
        return [function("copy", (LambdaParameter(INT, "buffer"), LambdaParameter(INT, "step")), body)]

    def _copy_left(self) -> list[Statement]:
        """Copies the fragments of the phases and taps of this step, without bounds checks: the filters were
        packed with padding up to whole tiles."""
        tile, found = self.tile, self.found
        packed, _ = self._packed
        shape = self.plan.buffers[packed.buffer].shape
        outer = [axis.index for axis in self._taps]
        vectors = tile.block_k // 16 * (tile.block_m // 16) * 32
        lead = [indices.variable("block_row"), indices.variable("chunk"), *outer]

        def copy(tap: int, place: int, phase: int, count: int) -> Statement:
            last = [indices.number(tap)] if found.last.reads > 1 else []
            zeros = [indices.ZERO] * (len(shape) - len(lead) - len(last) - 1)
            at = row_major([*lead, *last, indices.number(phase), *zeros], shape)
            to = cast(CudaType("uint4*"), LEFT_TILE[BUFFER][tap][place]) + VECTOR
            move = pipeline_memcpy_async(to, Given(packed.buffer) + self.index(at) + VECTOR * 8, VECTOR_BYTES)
            return loop("vector", THREAD, count, [Do(move)], step=tile.threads)

        copies = [
            when(self._is_taken(phase, tap), copy(tap, place, phase, vectors))
            if self._varies(tap)
            else copy(tap, place, phase, vectors)
            for tap in range(found.last.reads)
            for place, phase in enumerate(self._live)
            if any(taken == found.phases[phase] and at[-1] == tap for taken, at in found.taken)
        ]
        if len(found.taken) == len(found.phases) * prod(d.reads for d in found.dimensions):
            copies = [copy(0, 0, 0, vectors * len(copies))]
        return [const(INT64, "chunk", FIRST / tile.block_k), *copies]

    def _bits(self, tap: int) -> list[int]:
        """For each point of the outer taps, the phases that have the tap number `tap` of the last dimension,
        as bits in the order of the phases with taps."""
        points = _points(self.found.outer)
        phases = [self.found.phases[number] for number in self._live]
        return [
            sum(1 << bit for bit, phase in enumerate(phases) if (phase, (*at, tap)) in self.found.taken)
            for at in points
        ]

    def _varies(self, tap: int) -> bool:
        return len(set(self._bits(tap))) > 1

    def _active(self, tap: int) -> Term:
        """The phases that have a tap in this step, as bits."""
        *first, found = self._bits(tap)
        value: Term = LiteralTerm(f"{found:#x}u")
        if not self._varies(tap):
            return value
        for place, bits in reversed(list(enumerate(first))):
            value = Choice(POINT.equals(place), LiteralTerm(f"{bits:#x}u"), value)
        return value

    def _is_taken(self, phase: int, tap: int) -> Term:
        bit = 1 << self._live.index(phase)
        points = [place for place, bits in enumerate(self._bits(tap)) if bits & bit]
        return any_of([POINT.equals(place) for place in points])

    def _gather(self) -> list[Statement]:
        found, load = self.found, self.found.source
        cells = self._cells[len(found.images) :]
        places = [
            indices.subtract(
                indices.add(cell.index, indices.number(dimension.first)),
                indices.multiply(dimension.taps.index, indices.number(dimension.step)),
            )
            for dimension, cell in zip(found.outer, cells, strict=False)
        ]
        last = indices.add(cells[-1].index, indices.number(found.last.first))
        places.append(indices.subtract(last, indices.number(found.last.reach)))
        position = (*load.position[: -len(places)], *places)
        fixed, moved = separate(row_major(position, self.plan.buffers[load.buffer].shape), found.channel.name)
        tests = [
            test
            for place, dimension in zip(places, found.dimensions, strict=True)
            for test in (self.index(place) >= 0, self.index(place) < self.index(dimension.extent))
        ]
        inside = all_of([Local("in_columns"), *tests])
        whole = all(
            indices.evaluate(found.channel.extent, sizes) % self.tile.block_k == 0
            for sizes in self.plan.sizes
        )
        ends = [] if whole else [K < self.index(found.channel.extent)]
        there = all_of([Local("inside"), *ends])
        assert inside is not None and there is not None
        element = read(Local("from") + self.index(indices.replace(moved, {found.channel.name: _K})))
        return [
            const(BOOL, "inside", inside),
            declare(CudaType("const float*"), "from", Given(load.buffer) + self.index(fixed)),
            unrolled(
                "part",
                self._gathered,
                [
                    const(INT64, "k", FIRST + RIGHT_PART * self._gathered + PART),
                    assign(VALUES[PART], Choice(there, element, LiteralTerm("0.0f"))),
                ],
            ),
        ]

    def _put(self) -> list[Statement]:
        """Declares the lambda `put(buffer)`, which writes this thread's column to shared memory, in halves,
        divided by a power of two that all columns of its line have; sums follow where that grows."""
        pair = RIGHT_PART * (self._gathered // 2)
        grown = OUTGROWN.of(self.tile.block_n)(
            LARGEST(VALUES), SCALE, GROUP, RIGHT_COLUMN, LARGEST_BITS, FACTORS
        )
        put = PUT(RIGHT_TILE[BUFFER], pair, RIGHT_COLUMN + LINE_PADDING, VALUES, SCALE)
        body: list[Statement] = [when(grown, Do(RESCALE(SUMS, FACTORS, WARP_COLUMN))), Do(put)]
        return [function("put", (LambdaParameter(INT, "buffer"),), body)]

    def _loop(self) -> list[Statement]:
        found, next_ = self.found, STEP + 1
        taps = range(found.last.reads)
        masks = Braces(tuple(self._active(tap) for tap in taps))
        point = [const(INT, "point", STEP % POINTS)] if any(map(self._varies, taps)) else []
        multiply = MULTIPLY.of(found.last.step)(
            SUMS, LEFT_TILE[STEP % 2], RIGHT_TILE[STEP % 2], WARP_ROW, WARP_COLUMN + LINE_PADDING, ACTIVE
        )
        return [
            Do(call("copy", 0, 0)),
            Do(call("put", 0)),
            Do(pipeline_wait_prior(0)),
            BARRIER,
            loop(
                "step",
                0,
                STEPS,
                [
                    const(BOOL, "further", next_ < STEPS),
                    when(FURTHER, Do(call("copy", next_ % 2, next_))),
                    *point,
                    Declaration(UNSIGNED, (Declarator("active", masks, (term(found.last.reads),)),), "const"),
                    Do(multiply),
                    when(FURTHER, Do(call("put", next_ % 2))),
                    Do(pipeline_wait_prior(0)),
                    BARRIER,
                ],
            ),
        ]


_K = indices.variable("k")


def _points(dimensions: tuple[Dimension, ...]) -> list[tuple[int, ...]]:
    """All points of the taps' axes of some dimensions, in row-major order."""
    found: list[tuple[int, ...]] = [()]
    for dimension in dimensions:
        found = [(*point, tap) for point in found for tap in range(dimension.reads)]
    return found
