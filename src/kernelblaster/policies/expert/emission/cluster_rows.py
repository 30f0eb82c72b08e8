"""Cluster kernels: one row split over a thread-block cluster, slices resident in registers and shared memory.

Threads come back to what they copied themselves, so that there is no barrier but those of the cluster. A
persistent cluster reads a vector of its next row in the place of each that has been used for the last time.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from kernelblaster.policies.expert.emission.accumulators import Accumulator
from kernelblaster.policies.expert.emission.loops import indented
from kernelblaster.policies.expert.emission.unaligned_rows import LINE
from kernelblaster.policies.expert.schedule import ClusterRows

HELPERS = ("start_in_turn", "copy_async", "cluster_reduce")
NEXT = "next"  # the row that a cluster goes on to
WAIT = "__cluster_barrier_wait();"


def blocks(schedule: ClusterRows, total: str) -> str:
    """Blocks of a launch for so many rows."""
    most = schedule.resident
    clusters = f"({total} < {most} ? {total} : {most})" if schedule.persistent else f"({total})"
    return f"{clusters} * {schedule.blocks}"


def head(schedule: ClusterRows, total: str) -> list[str]:
    return [
        f"constexpr int BLOCKS = {schedule.blocks};  // of a cluster: they share a row",
        "__cluster_barrier_arrive_relaxed();",
        "const int rank = blockIdx.x % BLOCKS;",
        f"start_in_turn<{schedule.resident}>(blockIdx.x / BLOCKS, {total});",
    ]


def find_next_row(kind: str, row: str, total: str) -> list[str]:
    """Declares the cluster's next row, once this one's results are known, and arrives at the cluster
    barrier."""
    return [
        f"const {kind} {NEXT} = {row} + gridDim.x / BLOCKS;",
        f"const bool more = {NEXT} < {total};",
        "if (more) __cluster_barrier_arrive();",
    ]


def step_to_next_row(row: str) -> list[str]:
    """The step to the next row: stop if there is none, else advance and wait at the cluster barrier."""
    return ["if (!more) break;", f"{row} = {NEXT};", f"{WAIT}  // the other blocks have heard what was told"]


def slice_of_row(kind: str, all_packs: str) -> list[str]:
    """The vectors of this block: whole lines of memory."""
    return [
        f"constexpr int LINE = {LINE} / WIDTH;",
        f"const {kind} row_packs = ({all_packs}) / WIDTH;",
        f"const {kind} share = (row_packs + BLOCKS * LINE - 1) / (BLOCKS * LINE) * LINE;",
        f"const {kind} begin = rank * share, packs = min(row_packs, begin + share);",
    ]


@dataclass(frozen=True)
class Resident:
    """The type of a tensor's vectors, and the address of the one with the number `at`."""

    pack: str
    place: str


def read_residents(kind: str, schedule: ClusterRows, packs: Mapping[str, Resident]) -> list[str]:
    """Starts to read the vectors of each name: the first of a thread into registers, the next into shared
    memory."""
    lines = []
    start = "begin + thread"
    if packs and schedule.register_elements:
        elements = schedule.register_elements
        lines.append(f"constexpr int HELD = {elements} / WIDTH;  // packs in each thread's registers")
        lines += [f"{one.pack} {name}_held[HELD];" for name, one in packs.items()]
        read = "read_once({0})" if schedule.streaming else "*{0}"
        reads = [f"if (at < packs) {name}_held[k] = {read.format(one.place)};" for name, one in packs.items()]
        lines += unrolled(kind, "HELD", start, reads)
        start += " + HELD * THREADS"
    if packs and schedule.shared_elements:
        elements = schedule.shared_elements
        lines.append(f"constexpr int KEPT = {elements} / WIDTH;  // packs of each thread in shared memory")
        lines += _places(packs)
        lines.append("constexpr int BATCH = (KEPT + 15) / 16 * 4;  // packs that are waited for together")
        copies = [
            f"if (at < packs) copy_async({name}_kept + k * THREADS, {one.place});"
            for name, one in packs.items()
        ]
        copies.append("if ((k + 1) % BATCH == 0 || k + 1 == KEPT) close_copies();")
        lines += unrolled(kind, "KEPT", start, copies)
    return [*lines, f"{WAIT}  // the other blocks have begun: there is their memory"]


def over_registers(kind: str, start: str, take: str, following: Mapping[str, str]) -> list[str]:
    """The loop over vectors in registers; where all threads have them, nothing is asked for each. After that
    come those of the next row, if addresses are given."""
    taken = [take, *(f"if (more) {name}_held[k] = *{place};" for name, place in following.items())]
    sure, unsure = (unrolled(kind, "HELD", start, lines) for lines in (taken, _if_any(taken)))
    return ["if (begin + HELD * THREADS <= packs) {", *indented(sure), "} else {", *indented(unsure), "}"]


def over_shared(kind: str, before: str, take: str, following: Mapping[str, str]) -> list[str]:
    """The loops over vectors in shared memory, of which the first is `before` vectors behind the thread's
    first: what has come is taken while the rest is under way; of each batch, first the vectors that all
    threads have. After that come those of the next row, if addresses are given: then, all of this row is
    there already."""
    start = f"begin + thread + {before}" if before else "begin + thread"
    left = f"packs - begin - {before}" if before else "packs - begin"
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
        f"const int all = min(({kind})KEPT, ({left}) / THREADS);",
        "#pragma unroll 1",
        "for (int batch = 0; batch < KEPT; batch += BATCH) {",
        *indented(batch),
        "}",
    ]


def _if_any(statements: list[str]) -> list[str]:
    """Statements for a vector that this thread may not have."""
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


def _places(packs: Mapping[str, Resident]) -> list[str]:
    """The addresses of the thread's vectors in shared memory."""
    lines = ["extern __shared__ uint4 kept[];"]
    start = "kept"
    for name, one in packs.items():
        lines.append(f"auto* {name}_kept = reinterpret_cast<{one.pack}*>({start}) + thread;")
        start = f"{name}_kept - thread + KEPT * THREADS"
    return lines


def combine(slots: Mapping[int, Accumulator]) -> list[str]:
    """Combines running results of all blocks at one cluster barrier."""
    tell = [f"tell_cluster<THREADS, BLOCKS, {slot}>({a.name}, {a.functor}());" for slot, a in slots.items()]
    hear = [f"hear_cluster<BLOCKS, {slot}>({a.name}, {a.functor}());" for slot, a in slots.items()]
    return [*tell, "meet_cluster();", *hear]
