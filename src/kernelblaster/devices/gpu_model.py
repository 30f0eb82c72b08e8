"""The timing model: computes the time of a launch on a GPU from what the PTX machine, the emulator, counted
on some of its blocks.

Several bounds on the time are computed: by device memory traffic, by L2 traffic and atomics, by the start of
blocks, and by the SMs. The bound of an SM is its busiest pipe, or the latency of a block's dependent
instructions divided by the number of resident blocks that hide it. The time of a launch is the largest bound,
a little more if others are close to it, and a constant for the launch.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from math import ceil
from pathlib import Path
from typing import Any, Literal, get_args

from kernelblaster.devices.occupancy import WARP, blocks_per_sm, limits_of, nearest_earlier
from kernelblaster.devices.specs import GpuSpec
from kernelblaster.records import Resources
from kernelblaster.records.record import Record

Which = Literal["spread", "first", "all"]
SECTOR = 32
LINE = 128
LAUNCH_US = 2.2  # from one event to the next around an empty kernel
DRAM_SHARE = 0.9  # of the peak rate that streaming kernels reach
# What is used again and again, as a share of a cache: all is kept up to the first, none from the second.
HOLDS, LOSES = 0.75, 1.1
HOT_L2 = 0.25  # of the cache: a tensor of this size that all blocks use is never lost
SHARPNESS = 4.0  # of the transition from one bound to the next
PIPE_SHARPNESS = 3.0  # the same for the pipes of an SM
BLOCK_CYCLES, THREAD_CYCLES = 200.0, 1.6  # to start a block, and for each of its threads
BLOCKS_PER_CLOCK = 0.85  # that the whole GPU starts
ATOMIC_CYCLES = 3.5  # between two atomics on one address
PARTIAL_LINE = 3.0  # what a line that is not wholly written costs beyond its sectors, in sectors
LEAST_SECTORS = 2.0  # that a line costs which is fetched from the L2 cache
FOLDED = 0.75  # of integer instructions, what ptxas leaves: additions are merged, addresses shared
CARVE_OUTS_KB = (0, 8, 16, 32, 64, 100, 132, 164, 196, 228)


class Architecture(Record):
    """What the timing model knows of one SM of an architecture; the values are in architectures.toml. The
    fields from `fp32` to `memory` say how many lanes the units for a kind of instructions execute per clock:
    `integer` and `multiply` are for additions and multiplications of integers, `special` for functions such
    as exp and rsqrt, `convert` for conversions of types, `half` for operations on two values in half
    precision, `memory` for loads and stores. `tensor` is half-precision multiply-adds per clock; mma.sync
    reaches the fraction `mma_share` of it. `l1_kb` is KiB of L1 and shared memory together, `l2_bytes` bytes
    per clock from L2. The latencies, of memory accesses by where the data is and of a barrier, are in clock
    cycles."""

    fp32: float
    integer: float
    multiply: float
    special: float
    convert: float
    fp64: float
    half: float
    shuffle: float
    memory: float
    tensor: float
    mma_share: float
    l1_kb: int
    l2_bytes: float
    l1_latency: float
    l2_latency: float
    dram_latency: float
    shared_latency: float
    barrier_latency: float


@cache
def architecture_of(spec: GpuSpec) -> Architecture:
    """The throughputs and latencies of the GPU's architecture from architectures.toml; if it is not listed
    there, those of the nearest earlier one."""
    data = tomllib.loads((Path(__file__).parent / "architectures.toml").read_text())
    return Architecture(**data[str(nearest_earlier(map(int, data), spec.architecture))])


@dataclass(frozen=True)
class Residency:
    """How many blocks of a launch are resident at once: `blocks_per_sm` at most on one SM, `resident` on the
    whole GPU. `l1_bytes` is each block's share of an SM's L1 cache, in bytes."""

    blocks_per_sm: int
    resident: int
    l1_bytes: int


def residency_of(spec: GpuSpec, work: Mapping[str, Any], resources: Resources) -> Residency:
    """How many blocks of a launch are resident at once on the GPU `spec`. `work` describes the launch by its
    "grid", "block" and "shared_bytes" (dynamic shared memory); `resources` is ptxas' report on the kernel."""
    threads, shared = threads_of(work), resources.shared_bytes + int(work["shared_bytes"])
    most = max(1, blocks_per_sm(spec.architecture, threads, resources.registers, shared))
    blocks = blocks_of(work)
    busy = min(most, ceil(blocks / spec.multiprocessors))
    used_kb = busy * (shared + limits_of(spec.architecture).reserved_shared_bytes * (shared > 0)) / 1024
    carved = next((kb for kb in CARVE_OUTS_KB if kb >= used_kb), CARVE_OUTS_KB[-1])
    free_bytes = max(8, architecture_of(spec).l1_kb - carved) << 10
    return Residency(most, min(blocks, most * spec.multiprocessors), free_bytes // busy)


@dataclass(frozen=True)
class SampledBlocks:
    """Which blocks of a launch are run to model its time. "spread": some over the whole grid, moved by the
    fraction `shift` (0 to 1) of it. "first": the first ones, one after the other, for kernels in which a
    block needs what earlier blocks wrote. "all": every block, interleaved, for kernels in which blocks wait
    for each other."""

    which: Which = "spread"
    shift: float = 0.0


def model_values(
    spec: GpuSpec, residency: Residency, most_blocks: int, most_instructions: int, sampled: SampledBlocks
) -> list[float]:
    """The numbers that the emulator needs to run some blocks of a launch for the timing model of the GPU
    `spec`, in the order of `Model` in ptx/native/timing.h. `sampled` says which blocks are run: at most
    `most_blocks`, and none is begun after `most_instructions` warp instructions in all. `residency` says how
    many blocks the GPU runs at once."""
    a = architecture_of(spec)
    return [
        residency.l1_bytes,
        spec.l2_mb * 1e6,
        residency.resident,
        most_blocks,
        most_instructions,
        get_args(Which).index(sampled.which),
        sampled.shift,
        a.l1_latency,
        a.l2_latency,
        a.dram_latency,
        a.shared_latency,
        a.barrier_latency,
    ]


@dataclass(frozen=True)
class KernelTime:
    """The modelled time of one launch in us (`total_us`), and the time in us that each bound by itself would
    give: `dram_us` and `l2_us` for the traffic of DRAM and L2, `pipes_us` for each pipe of the SMs by name,
    `latency_us` for the latency of dependent instructions. The traffic in bytes (read from and written to
    DRAM, and that of L2) is the whole grid's. `residency` says how many blocks run at once."""

    total_us: float
    dram_us: float
    l2_us: float
    pipes_us: dict[str, float]
    latency_us: float
    dram_read_bytes: float
    dram_write_bytes: float
    l2_bytes: float
    residency: Residency


def kernel_time(
    spec: GpuSpec, work: Mapping[str, Any], resources: Resources, report: Mapping[str, Any]
) -> KernelTime:
    """The modelled time of a launch on the GPU `spec`. `work` describes the launch by its "grid", "block" and
    "shared_bytes" (dynamic shared memory). `resources` is ptxas' report on the kernel. `report` is the
    emulator's, on some of the launch's blocks: its "costs" and "counts"."""
    a = architecture_of(spec)
    costs, counts = report["costs"], report["counts"]
    residency = residency_of(spec, work, resources)
    blocks = blocks_of(work)
    scale = blocks / max(costs["sampled"], 1)
    clock_mhz = spec.fp32_tflops * 1e6 / (spec.multiprocessors * a.fp32 * 2)
    spills = _spills(spec, work, resources, report, residency)
    read, written, l2_bytes = _traffic(spec, costs, scale, residency)
    read, l2_bytes = read + spills.dram_bytes * scale, l2_bytes + spills.l2_bytes * scale
    cycles = _pipe_cycles(a, costs, counts, spills.instructions)
    per_block = {name: value / max(costs["sampled"], 1) for name, value in cycles.items()}
    latency = costs["latency"] / max(costs["sampled"], 1)
    latency += BLOCK_CYCLES + THREAD_CYCLES * threads_of(work)
    busiest = together(list(per_block.values()), PIPE_SHARPNESS)
    sm_cycles = _grid_cycles(blocks, spec.multiprocessors, residency, busiest, latency)
    busy = min(spec.multiprocessors, blocks)
    dram_us = (read + written) / (spec.dram_gb_s * 1e3 * DRAM_SHARE)
    l2_us = l2_bytes / (a.l2_bytes * busy * clock_mhz)
    atomics_us = costs["hottest_atomic"] * scale * ATOMIC_CYCLES / clock_mhz
    start_us = blocks / (BLOCKS_PER_CLOCK * clock_mhz)
    share = blocks / busy
    bounds = [sm_cycles / clock_mhz, dram_us, l2_us, atomics_us, start_us]
    return KernelTime(
        total_us=LAUNCH_US + together(bounds),
        dram_us=dram_us,
        l2_us=max(l2_us, atomics_us),
        pipes_us={name: value * share / clock_mhz for name, value in per_block.items()},
        latency_us=_grid_cycles(blocks, spec.multiprocessors, residency, 0.0, latency) / clock_mhz,
        dram_read_bytes=read,
        dram_write_bytes=written,
        l2_bytes=l2_bytes,
        residency=residency,
    )


def together(bounds: list[float], sharpness: float = SHARPNESS) -> float:
    """Returns a smooth maximum of several bounds (all in one unit), their p-norm: (sum of bound ** sharpness)
    ** (1 / sharpness). It equals the largest bound if the others are small, and is a little more if others
    are close to it. A higher `sharpness` is closer to the plain maximum."""
    largest = max(bounds)
    if largest <= 0:
        return 0.0
    return float(largest * sum((b / largest) ** sharpness for b in bounds) ** (1 / sharpness))


def copy_us(spec: GpuSpec, size: int) -> float:
    """Returns the modelled time in us of a memset or memcpy of `size` bytes within the device memory of the
    GPU `spec`, including the launch overhead."""
    return LAUNCH_US + size / (spec.dram_gb_s * 1e3 * DRAM_SHARE)


def _grid_cycles(
    blocks: int, multiprocessors: int, residency: Residency, busiest: float, latency: float
) -> float:
    """Cycles of the SM with the most blocks, wave by wave, if `blocks` blocks are spread over all SMs of the
    GPU. `busiest` is the cycles for which one block occupies the busiest pipe, `latency` the cycles of a
    block's dependent instructions, which other resident blocks overlap."""
    most = residency.blocks_per_sm

    def wave(count: float) -> float:
        return together([count * busiest, latency])

    waves = blocks / (multiprocessors * most)
    if waves > 3:
        return waves * wave(most)
    full = int(waves)
    rest = ceil((blocks - full * multiprocessors * most) / multiprocessors)
    return full * wave(most) + (wave(rest) if rest else 0.0)


def _traffic(
    spec: GpuSpec, costs: Mapping[str, Any], scale: float, residency: Residency
) -> tuple[float, float, float]:
    """(bytes read from DRAM, bytes written to DRAM, bytes between L1 and L2) of the whole grid on the GPU
    `spec`, from the emulator's `costs` of the sampled blocks; `scale` is all blocks over sampled ones,
    `residency` how many blocks share the caches."""
    sampled = max(costs["sampled"], 1)
    share = SECTOR * residency.resident / sampled
    wave = sum(min(t["bytes"], t["first"] * share) for t in costs["traffic"])
    lost = _excess(wave, spec.l2_mb * 1e6)
    read = written = loads = 0.0
    for t in costs["traffic"]:
        first, again, stored = (t[key] * SECTOR * scale for key in ("first", "again", "stored"))
        read += min(t["bytes"], first) + again * (lost if t["bytes"] > HOT_L2 * spec.l2_mb * 1e6 else 0.0)
        written += min(t["bytes"], stored)
        loads += first + again
    stores = costs["store_sectors"] + PARTIAL_LINE * costs["partial_lines"] + 2 * costs["atomic_sectors"]
    loads = max(loads, LEAST_SECTORS * costs["missed_lines"] * SECTOR * scale)
    return read, written, loads + stores * SECTOR * scale


@dataclass(frozen=True)
class _Spills:
    """Register spill traffic of all sampled blocks: warp instructions, and bytes that reach L2 and DRAM.
    ptxas adds spills after PTX, so the emulator cannot count them."""

    instructions: float
    l2_bytes: float
    dram_bytes: float


def _spills(
    spec: GpuSpec,
    work: Mapping[str, Any],
    resources: Resources,
    report: Mapping[str, Any],
    residency: Residency,
) -> _Spills:
    """Register spill traffic of the sampled blocks of a launch (`work`), estimated from ptxas' report
    (`resources`) and the emulator's (`report`) as if spills were spread over the kernel as evenly as its
    other instructions."""
    words = (resources.spill_load_bytes + resources.spill_store_bytes) / 4
    counts, costs = report["counts"], report["costs"]
    executed = words * counts["total_warp_instructions"] / max(costs["instructions"], 1)
    block_bytes = resources.stack_bytes * threads_of(work)
    missed = _excess(block_bytes, residency.l1_bytes)
    lost = _excess(block_bytes * residency.resident, spec.l2_mb * 1e6)
    return _Spills(executed, executed * LINE * missed, executed * LINE * missed * lost)


def _excess(wanted: float, room: float) -> float:
    """Cache model: the fraction (0 to 1) of accesses that miss, if a kernel goes through `wanted` bytes again
    and again and the cache holds `room` bytes."""
    return min(1.0, max(0.0, (wanted / room - HOLDS) / (LOSES - HOLDS)))


def _pipe_cycles(
    a: Architecture, costs: Mapping[str, Any], counts: Mapping[str, Any], spilled: float
) -> dict[str, float]:
    """Cycles that each pipe of one SM, by name, needs for all sampled blocks. `costs` and `counts` are the
    emulator's; `spilled` is the number of warp instructions for register spills."""
    p = costs["pipes"]
    shared = sum(counts[f"shared_{way}_wavefronts"] for way in ("load", "store"))
    l1 = shared + costs["lines"] + counts["local_sectors"] / 4 + spilled
    return {
        "issue": (p["issue"] - (1 - FOLDED) * p["alu"] + spilled) / 4,
        "fma": p["fma"] * WARP / a.fp32,
        "alu": FOLDED * p["alu"] * WARP / a.integer,
        "multiply": p["multiply"] * WARP / a.multiply,
        "special": p["special"] * WARP / a.special,
        "convert": p["convert"] * WARP / a.convert,
        "fp64": p["fp64"] * WARP / a.fp64,
        "half": p["half"] * WARP / a.half,
        "memory": (p["memory"] + spilled) * WARP / a.memory,
        "l1": float(l1),
        "shuffle": p["shuffle"] * WARP / a.shuffle,
        "tensor": p["tensor"] / (a.tensor * a.mma_share),
    }


def threads_of(work: Mapping[str, Any]) -> int:
    """How many threads one block of a launch has. `work` describes the launch: its "block" is (x, y, z)."""
    x, y, z = work["block"]
    return int(x * y * z)


def blocks_of(work: Mapping[str, Any]) -> int:
    """How many thread blocks a launch has. `work` describes the launch: its "grid" is (x, y, z)."""
    x, y, z = work["grid"]
    return int(x * y * z)
