"""Occupancy: how many blocks and warps of a kernel fit on an SM, from registers, shared memory and block
size."""

from collections.abc import Iterable
from dataclasses import dataclass

WARP = 32


@dataclass(frozen=True)
class OccupancyLimits:
    """What one SM can hold at once, from the compute-capability table of the CUDA C++ programming guide:
    threads, blocks, bytes of shared memory, 32-bit registers. A warp's registers are rounded up to a multiple
    of `register_unit`; the system takes `reserved_shared_bytes` of shared memory for each block."""

    threads: int
    blocks: int
    shared_bytes: int
    registers: int = 65536
    register_unit: int = 256
    reserved_shared_bytes: int = 1024


LIMITS = {
    80: OccupancyLimits(threads=2048, blocks=32, shared_bytes=164 << 10),
    86: OccupancyLimits(threads=1536, blocks=16, shared_bytes=100 << 10),
    89: OccupancyLimits(threads=1536, blocks=24, shared_bytes=100 << 10),
    90: OccupancyLimits(threads=2048, blocks=32, shared_bytes=228 << 10),
    100: OccupancyLimits(threads=2048, blocks=32, shared_bytes=228 << 10),
}


def capability(architecture: str) -> int:
    """The compute capability in an architecture's name, as a number: 90 for "sm_90a"."""
    return int("".join(c for c in architecture if c.isdigit()))


def nearest_earlier(listed: Iterable[int], architecture: str) -> int:
    """The compute capability among `listed` (like 80, 90) that fits an architecture like "sm_90a" best: its
    own, otherwise the nearest earlier one, otherwise the lowest."""
    numbers = sorted(listed)
    return max((n for n in numbers if n <= capability(architecture)), default=numbers[0])


def limits_of(architecture: str) -> OccupancyLimits:
    """What fits on one SM of an architecture like "sm_90a"; for one that is not listed, the limits of the
    nearest earlier one."""
    return LIMITS[nearest_earlier(LIMITS, architecture)]


def blocks_per_sm(architecture: str, threads: int, registers: int, shared_bytes: int) -> int:
    """How many blocks of a kernel can be resident at once on one SM of `architecture` (like "sm_90a"). The
    kernel has `threads` per block, `registers` per thread, and `shared_bytes` of static and dynamic shared
    memory per block. Zero if not even one block fits."""
    limits = limits_of(architecture)
    warps = -(-threads // WARP)
    registers_per_warp = -(-registers * WARP // limits.register_unit) * limits.register_unit
    by_registers = limits.registers // max(registers_per_warp * warps, 1)
    by_shared = limits.shared_bytes // (shared_bytes + limits.reserved_shared_bytes)
    by_threads = limits.threads // max(warps * WARP, 1)
    return max(0, min(limits.blocks, by_threads, by_registers, by_shared))


def occupancy_percent(architecture: str, threads: int, registers: int, shared_bytes: int) -> float:
    """Theoretical occupancy of a kernel: resident warps as a percentage of the most that an SM of
    `architecture` can hold. It has `threads` per block, `registers` per thread, and `shared_bytes` of shared
    memory per block, static and dynamic."""
    limits = limits_of(architecture)
    warps = -(-threads // WARP)
    blocks = blocks_per_sm(architecture, threads, registers, shared_bytes)
    return 100.0 * blocks * warps / (limits.threads // WARP)
