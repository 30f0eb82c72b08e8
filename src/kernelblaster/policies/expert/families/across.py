"""Rows across blocks: what a kernel has beside the rest where the blocks of a cluster share each row.

Every block keeps its part in shared memory. Threads come back to what they copied themselves, so that
there is no barrier but those at which the blocks meet.
"""

from collections.abc import Mapping

from kernelblaster.policies.expert.device_code import device_code
from kernelblaster.policies.expert.plan import Schedule

HELPERS = ("copy_async", "cluster_reduce")
PROCESSOR = 227 << 10  # bytes of shared memory that the blocks on one processor may have together
THREADS = 1024  # that they may have together: each then has 64 registers
RESERVED = 2 << 10  # of these for each block: by the system, and for reductions


def blocks_per_processor(shared: int, threads: int = 1) -> int:
    """How many blocks there is room for."""
    return min(PROCESSOR // (shared + RESERVED), THREADS // threads)


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


def kept(kind: str, elements: int, packs: Mapping[str, str]) -> list[str]:
    """Copies of the packs of each name, which have the given types, to shared memory."""
    started = "__cluster_barrier_wait();  // the other blocks have begun: there is their memory"
    if not packs:
        return [started]
    lines = [
        f"constexpr int KEPT = {elements} / WIDTH;  // packs of each thread in shared memory",
        "extern __shared__ uint4 kept[];",
    ]
    start = "kept"
    for name, pack in packs.items():
        lines.append(f"auto* {name}_kept = reinterpret_cast<{pack}*>({start}) + thread;")
        start = f"{name}_kept - thread + KEPT * THREADS"
    copies = [f"  if (at < packs) copy_async({name}_kept + k * THREADS, place_{name}(at));" for name in packs]
    return [
        *lines,
        "#pragma unroll",
        "for (int k = 0; k < KEPT; ++k) {",
        f"  const {kind} at = begin + thread + k * THREADS;",
        *copies,
        "}",
        "wait_for_copies();",
        started,
    ]


def helpers() -> list[str]:
    return [device_code(name) for name in HELPERS]
