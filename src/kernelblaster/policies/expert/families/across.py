"""Rows across blocks: what a kernel has beside the rest where the blocks of a cluster share each row.

Every block keeps its part in registers and shared memory. Threads come back to what they copied
themselves, so that there is no barrier but those at which the blocks meet.

Where a processor has room for one block only, nothing else runs while it waits. Such clusters stay: as soon
as a pack of a row has been used for the last time, that of the cluster's next row is read in its place.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from kernelblaster.policies.expert.device_code import device_code
from kernelblaster.policies.expert.families.accumulators import Accumulator
from kernelblaster.policies.expert.families.loops import indented
from kernelblaster.policies.expert.families.peeled import LINE
from kernelblaster.policies.expert.plan import Schedule

HELPERS = ("start_in_turn", "copy_async", "cluster_reduce")
TOGETHER = {2: 66, 4: 31, 8: 15, 16: 7}  # clusters of so many blocks that an H200 has room for side by side
PROCESSOR = 227 << 10  # bytes of shared memory that the blocks on one processor may have together
RESERVED = 2 << 10  # of these for each block: by the system, and for reductions
REGISTERS = 64 << 10  # that they may have together
USUAL = 64  # registers of a thread
MOST = 255
NEXT = "next"  # the row that a cluster goes on to
WAIT = "__cluster_barrier_wait();"
OTHERS = 40  # that it needs beside those that hold elements


def shared_bytes(schedule: Schedule, each: int) -> int:
    """Bytes of shared memory of a block; `each` is the number of bytes kept for one element of a row."""
    return schedule.kept * schedule.threads * each


def registers(schedule: Schedule, each: int) -> int:
    """Registers of a thread."""
    return max(USUAL, OTHERS + schedule.held * each // 4)


def blocks_per_processor(schedule: Schedule, each: int) -> int:
    """How many blocks of this schedule fit on an SM."""
    by_memory = PROCESSOR // (shared_bytes(schedule, each) + RESERVED)
    return min(by_memory, REGISTERS // (schedule.threads * registers(schedule, each)))


def together(schedule: Schedule, each: int) -> int:
    """How many clusters of this schedule fit on the GPU at once."""
    return TOGETHER[schedule.cluster] * blocks_per_processor(schedule, each)


def blocks(schedule: Schedule, each: int, total: str) -> str:
    """Blocks of a launch for so many rows."""
    most = together(schedule, each)
    clusters = f"({total} < {most} ? {total} : {most})" if schedule.stays else f"({total})"
    return f"{clusters} * {schedule.cluster}"


def head(schedule: Schedule, each: int, total: str) -> list[str]:
    return [
        f"constexpr int BLOCKS = {schedule.cluster};  // of a cluster: they share a row",
        "__cluster_barrier_arrive_relaxed();",
        "const int rank = blockIdx.x % BLOCKS;",
        f"start_in_turn<{together(schedule, each)}>(blockIdx.x / BLOCKS, {total});",
    ]


def onward(kind: str, row: str, total: str) -> list[str]:
    """Which row comes next, once this one's results are known."""
    return [
        f"const {kind} {NEXT} = {row} + gridDim.x / BLOCKS;",
        f"const bool more = {NEXT} < {total};",
        "if (more) __cluster_barrier_arrive();",
    ]


def upon(row: str) -> list[str]:
    """Goes on to it."""
    return ["if (!more) break;", f"{row} = {NEXT};", f"{WAIT}  // the other blocks have heard what was told"]


def part(kind: str, all_packs: str) -> list[str]:
    """The packs of this block: whole lines of memory."""
    return [
        f"constexpr int LINE = {LINE} / WIDTH;",
        f"const {kind} row_packs = ({all_packs}) / WIDTH;",
        f"const {kind} share = (row_packs + BLOCKS * LINE - 1) / (BLOCKS * LINE) * LINE;",
        f"const {kind} begin = rank * share, packs = min(row_packs, begin + share);",
    ]


@dataclass(frozen=True)
class Kept:
    """The type of a tensor's packs, and where the one with the number `at` is."""

    pack: str
    place: str


def kept(kind: str, schedule: Schedule, packs: Mapping[str, Kept]) -> list[str]:
    """Starts to read the packs of each name: the first of a thread into registers, the next into shared
    memory."""
    lines = []
    start = "begin + thread"
    if packs and schedule.held:
        lines.append(f"constexpr int HELD = {schedule.held} / WIDTH;  // packs in each thread's registers")
        lines += [f"{one.pack} {name}_held[HELD];" for name, one in packs.items()]
        read = "read_once({0})" if schedule.streaming else "*{0}"
        reads = [f"if (at < packs) {name}_held[k] = {read.format(one.place)};" for name, one in packs.items()]
        lines += unrolled(kind, "HELD", start, reads)
        start += " + HELD * THREADS"
    if packs and schedule.kept:
        lines.append(
            f"constexpr int KEPT = {schedule.kept} / WIDTH;  // packs of each thread in shared memory"
        )
        lines += _places(packs)
        lines.append("constexpr int BATCH = (KEPT + 15) / 16 * 4;  // packs that are waited for together")
        copies = [
            f"if (at < packs) copy_async({name}_kept + k * THREADS, {one.place});"
            for name, one in packs.items()
        ]
        copies.append("if ((k + 1) % BATCH == 0 || k + 1 == KEPT) close_copies();")
        lines += unrolled(kind, "KEPT", start, copies)
    return [*lines, f"{WAIT}  // the other blocks have begun: there is their memory"]


def over_held(kind: str, start: str, take: str, following: Mapping[str, str]) -> list[str]:
    """The loop over packs in registers; where all threads have them, nothing is asked for each. After that
    come those of the next row, if places are given."""
    taken = [take, *(f"if (more) {name}_held[k] = *{place};" for name, place in following.items())]
    sure, unsure = (unrolled(kind, "HELD", start, lines) for lines in (taken, _if_any(taken)))
    return ["if (begin + HELD * THREADS <= packs) {", *indented(sure), "} else {", *indented(unsure), "}"]


def over_kept(kind: str, start: str, take: str, following: Mapping[str, str]) -> list[str]:
    """The loops over packs in shared memory: what has come is taken while the rest is under way; of each
    batch, first the packs that all threads have. After that come those of the next row, if places are given:
    then, all of this row is there already."""
    before = start.removeprefix("begin + thread")
    at = f"  const {kind} at = {start} + k * THREADS;"
    copy = "if (more) copy_async({0}_kept + k * THREADS, {1});"
    taken = [take, *(copy.format(name, place) for name, place in following.items())]
    batch = [
        *([] if following else ["wait_for_copies((KEPT - 1 - batch) / BATCH);"]),
        "const int end = min(batch + BATCH, KEPT), sure = max(batch, min(all, end));",
        "#pragma unroll 4",
        "for (int k = batch; k < sure; ++k) {",
        at,
        *indented(taken),
        "}",
        "#pragma unroll 1",
        "for (int k = sure; k < end; ++k) {",
        at,
        *indented(_if_any(taken)),
        "}",
        *(["close_copies();"] if following else []),
    ]
    return [
        f"const int all = min(({kind})KEPT, (packs - begin{before.replace('+', '-')}) / THREADS);",
        "#pragma unroll 1",
        "for (int batch = 0; batch < KEPT; batch += BATCH) {",
        *indented(batch),
        "}",
    ]


def _if_any(statements: list[str]) -> list[str]:
    """Statements for a pack that this thread may not have."""
    if len(statements) == 1:
        return [f"if (at < packs) {statements[0]}"]
    return ["if (at < packs) {", *indented(statements), "}"]


def unrolled(kind: str, count: str, start: str, statements: list[str]) -> list[str]:
    return [
        "#pragma unroll",
        f"for (int k = 0; k < {count}; ++k) {{",
        f"  const {kind} at = {start} + k * THREADS;",
        *indented(statements),
        "}",
    ]


def _places(packs: Mapping[str, Kept]) -> list[str]:
    """CUDA statements for the shared-memory slots of the vectors (packs) that a thread copied."""
    lines = ["extern __shared__ uint4 kept[];"]
    start = "kept"
    for name, one in packs.items():
        lines.append(f"auto* {name}_kept = reinterpret_cast<{one.pack}*>({start}) + thread;")
        start = f"{name}_kept - thread + KEPT * THREADS"
    return lines


def met(turns: Mapping[int, Accumulator]) -> list[str]:
    """Combines running results of all blocks at one meeting."""
    tell = [f"tell_cluster<THREADS, BLOCKS, {turn}>({a.name}, {a.functor}());" for turn, a in turns.items()]
    hear = [f"hear_cluster<BLOCKS, {turn}>({a.name}, {a.functor}());" for turn, a in turns.items()]
    return [*tell, "meet_cluster();", *hear]


def helpers() -> list[str]:
    return [device_code(name) for name in HELPERS]
