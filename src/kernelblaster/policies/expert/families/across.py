"""Rows across blocks: what a kernel has beside the rest where the blocks of a cluster share each row.

Every block keeps its part in registers and shared memory. Threads come back to what they copied
themselves, so that there is no barrier but those at which the blocks meet.
"""

from collections.abc import Mapping

from kernelblaster.policies.expert.device_code import device_code
from kernelblaster.policies.expert.families.accumulators import Accumulator
from kernelblaster.policies.expert.families.loops import indented
from kernelblaster.policies.expert.plan import Schedule

HELPERS = ("copy_async", "cluster_reduce")
PROCESSOR = 227 << 10  # bytes of shared memory that the blocks on one processor may have together
RESERVED = 2 << 10  # of these for each block: by the system, and for reductions
REGISTERS = 64 << 10  # that they may have together
USUAL = 64  # registers of a thread
MOST = 255
OTHERS = 40  # that it needs beside those that hold elements


def shared_bytes(schedule: Schedule, each: int) -> int:
    """Shared memory of a block; `each` is what an element of all that is kept takes."""
    return schedule.kept * schedule.threads * each


def registers(schedule: Schedule, each: int) -> int:
    """Registers of a thread."""
    return max(USUAL, OTHERS + schedule.held * each // 4)


def blocks_per_processor(schedule: Schedule, each: int) -> int:
    """How many blocks there is room for."""
    by_memory = PROCESSOR // (shared_bytes(schedule, each) + RESERVED)
    return min(by_memory, REGISTERS // (schedule.threads * registers(schedule, each)))


def head(schedule: Schedule) -> list[str]:
    return [
        f"constexpr int BLOCKS = {schedule.cluster};  // of a cluster: they share a row",
        "__cluster_barrier_arrive_relaxed();",
        "const int rank = blockIdx.x % BLOCKS;",
    ]


def part(kind: str, all_packs: str) -> list[str]:
    """The packs of this block."""
    return [
        f"const {kind} row_packs = ({all_packs}) / WIDTH;",
        f"const {kind} begin = rank * ((row_packs + BLOCKS - 1) / BLOCKS);",
        f"const {kind} packs = min(row_packs, begin + (row_packs + BLOCKS - 1) / BLOCKS);",
    ]


def kept(kind: str, schedule: Schedule, packs: Mapping[str, str]) -> list[str]:
    """Starts to read the packs of each name, which have the given types: the first of a thread into
    registers, the next into shared memory."""
    lines = []
    start = "begin + thread"
    if packs and schedule.held:
        lines.append(f"constexpr int HELD = {schedule.held} / WIDTH;  // packs in each thread's registers")
        lines += [f"{pack} {name}_held[HELD];" for name, pack in packs.items()]
        read = "read_once(place_{0}(at))" if schedule.streaming else "read_{0}(at)"
        reads = [f"if (at < packs) {name}_held[k] = {read.format(name)};" for name in packs]
        lines += unrolled(kind, "HELD", start, reads)
        start += " + HELD * THREADS"
    if packs and schedule.kept:
        lines.append(
            f"constexpr int KEPT = {schedule.kept} / WIDTH;  // packs of each thread in shared memory"
        )
        lines += _places(packs)
        copies = [
            f"if (at < packs) copy_async({name}_kept + k * THREADS, place_{name}(at));" for name in packs
        ]
        lines += unrolled(kind, "KEPT", start, copies)
    return [*lines, "__cluster_barrier_wait();  // the other blocks have begun: there is their memory"]


def over_held(kind: str, start: str, take: str) -> list[str]:
    """The loop over packs in registers; where all threads have them, nothing is asked for each."""
    sure, unsure = (unrolled(kind, "HELD", start, [line]) for line in (take, f"if (at < packs) {take}"))
    return ["if (begin + HELD * THREADS <= packs) {", *indented(sure), "} else {", *indented(unsure), "}"]


def over_kept(kind: str, start: str, take: str) -> list[str]:
    """The loops over packs in shared memory: first those that all threads have."""
    before = start.removeprefix("begin + thread")
    at = f"  const {kind} at = {start} + k * THREADS;"
    return [
        "wait_for_copies();",
        f"const int all = min(({kind})KEPT, (packs - begin{before.replace('+', '-')}) / THREADS);",
        "#pragma unroll 4",
        "for (int k = 0; k < all; ++k) {",
        at,
        f"  {take}",
        "}",
        "#pragma unroll 1",
        "for (int k = max(all, 0); k < KEPT; ++k) {",
        at,
        f"  if (at < packs) {take}",
        "}",
    ]


def unrolled(kind: str, count: str, start: str, statements: list[str]) -> list[str]:
    return [
        "#pragma unroll",
        f"for (int k = 0; k < {count}; ++k) {{",
        f"  const {kind} at = {start} + k * THREADS;",
        *indented(statements),
        "}",
    ]


def _places(packs: Mapping[str, str]) -> list[str]:
    """Where the thread's packs are in shared memory."""
    lines = ["extern __shared__ uint4 kept[];"]
    start = "kept"
    for name, pack in packs.items():
        lines.append(f"auto* {name}_kept = reinterpret_cast<{pack}*>({start}) + thread;")
        start = f"{name}_kept - thread + KEPT * THREADS"
    return lines


def met(turns: Mapping[int, Accumulator]) -> list[str]:
    """Combines running results of all blocks at one meeting."""
    tell = [f"tell_cluster<THREADS, BLOCKS, {turn}>({a.name}, {a.functor}());" for turn, a in turns.items()]
    hear = [f"hear_cluster<BLOCKS, {turn}>({a.name}, {a.functor}());" for turn, a in turns.items()]
    return [*tell, "meet_cluster();", *hear]


def helpers() -> list[str]:
    return [device_code(name) for name in HELPERS]
