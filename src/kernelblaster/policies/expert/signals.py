"""Reads a kernel's profile into `Signals`, numbers with the same meaning whatever the profile's tier (the
method: Nsight Compute, a model of the GPU, durations alone, or emulation). A number that a tier does not
provide is None, so that nothing is concluded from it. Documented in docs/states.md."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil

from kernelblaster.devices.occupancy import WARP, limits_of
from kernelblaster.devices.specs import GpuSpec, gpu_specs
from kernelblaster.records import KernelProfile, Profile, ProfilerAdvice

SECTOR_BYTES = 32
WIDEST_BYTES = 16  # of one lane's access; a request of 32 lanes touches as many sectors as a lane has bytes
WORD_BYTES = 4
MATTERS = 0.25  # of all sectors: with fewer, loads or stores do not decide how well memory is used
PARTIAL_LINE = 4  # sectors that the L2 cache handles for each that does not fill its line
GLOBAL = "l1tex__t_{}_pipe_lsu_mem_global_op_{}.sum"
SHARED = "l1tex__data_{}_mem_shared.sum"
STALL = re.compile(r"smsp__average_warps_issue_stalled_(\w+)_per_issue_active\.ratio")
HIGHEST_PIPE = re.compile(r"^(.+?) is the highest-utilized pipeline \(([\d.]+)%\)")
EXCESSIVE = re.compile(r"uncoalesced global accesses.*excessive sectors \((\d+(?:\.\d+)?)% of the total")
# NCU's names of pipes on the left; the model's own stay as they are.
PIPES = {"fmaheavy": "fma", "fp16": "half", "xu": "special", "lsu": "memory", "uniform": "alu"}
LEADERS = ("issue", "l1", "memory")  # pipes of the model that have a signal of their own


@dataclass(frozen=True)
class Signals:
    """What a profile tells of one launch of a kernel; None where it does not tell. Unless said otherwise,
    values are shares or utilizations from 0 to 1.

    - Parts of the GPU that are busy: `dram`, `l2`, `l1`, `issue` (issue slots), and `pipes` (arithmetic
      pipes, by name).
    - Memory: `access_excess`, sectors moved over sectors needed, and `moved_over_floor`, DRAM bytes over the
      least that the call needs, are ratios. `bank_conflicts` is the share of wavefronts that conflicts added,
      `atomics` the share of atomics in the work of L2. `floor_rate` is the share of the peak DRAM rate that
      the least traffic alone would use.
    - Resources: `occupancy`; `registers` of a thread and `threads` of a block, as numbers; `spill_bytes` of a
      thread; `local_share`, the share of instructions that access local memory; `register_limited` and
      `shared_limited`, whether that resource limits how many blocks fit on an SM.
    - Idle lanes and warps: `active_lanes`, of a warp; `branch_efficiency`, the share of branches in which no
      warp diverges; `barrier_share`, of a warp's time; `balance`, the share of the SMs' time that is used if
      all blocks take equally long.
    - `duration_us`, in microseconds; `copy`, whether it is a fill or copy by the driver.
    """

    duration_us: float | None = None
    dram: float | None = None
    l2: float | None = None
    l1: float | None = None
    issue: float | None = None
    pipes: Mapping[str, float] = field(default_factory=dict)
    access_excess: float | None = None
    bank_conflicts: float | None = None
    atomics: float | None = None
    occupancy: float | None = None
    registers: float | None = None
    register_limited: bool = False
    shared_limited: bool = False
    spill_bytes: float | None = None
    local_share: float | None = None
    active_lanes: float | None = None
    branch_efficiency: float | None = None
    barrier_share: float | None = None
    balance: float | None = None
    threads: int = 0
    moved_over_floor: float | None = None
    floor_rate: float | None = None
    copy: bool = False

    @property
    def measured(self) -> bool:
        """True if the profile tells how busy any of DRAM, the L2 cache, the L1 cache and the issue slots
        was."""
        return any(value is not None for value in (self.dram, self.l2, self.l1, self.issue))


def gpu_of(device: str) -> GpuSpec | None:
    """Returns the GPU of specs.toml whose title occurs in `device`, the name of a (real or emulated) device
    in a profile; if several do, the one with the longest title. None if there is none."""
    named = [spec for spec in gpu_specs().values() if _says(device, spec.title)]
    return max(named, key=lambda spec: len(spec.title), default=None)


def _says(device: str, title: str) -> bool:
    """Whether a device's name has a title as whole words: "NVIDIA L4" is not in "NVIDIA L40"."""
    return re.search(rf"(?<!\w){re.escape(title)}(?!\w)", device) is not None


def signals_of(
    profile: Profile, kernel: KernelProfile, floor_bytes: int | None = None, access_bytes: int | None = None
) -> Signals:
    """Returns what `profile` tells of one launch of `kernel`, one of its kernels, as numbers that mean the
    same for every way of profiling: how busy parts of the GPU were, memory traffic, occupancy. From them the
    kernel's performance state is named. `floor_bytes` is the least memory traffic of the whole call in bytes,
    `access_bytes` how many bytes a lane loads or stores with one instruction; None if unknown."""
    read = _Reader(kernel)
    spec = gpu_of(profile.device)
    moved = _sum(read.number("dram__bytes_read.sum"), read.number("dram__bytes_write.sum"))
    local, executed = (
        read.number(n) for n in ("smsp__sass_inst_executed_op_local.sum", "smsp__inst_executed.sum")
    )
    used = _used(spec, kernel) if profile.tier == "modelled" else 1.0  # NCU's means include idle ones
    lanes = read.first("smsp__thread_inst_executed_per_inst_executed.ratio", "Active Lanes")
    return Signals(
        duration_us=kernel.duration_us,
        dram=read.share("DRAM Throughput"),
        l2=_times(read.share("L2 Cache Throughput"), used),
        l1=_times(read.share("L1/TEX Cache Throughput"), used),
        issue=_times(read.share("Issue Slots Busy"), used),
        pipes={name: use * used for name, use in _pipes(kernel).items()},
        access_excess=_access_excess(read, profile.tier == "modelled", access_bytes),
        bank_conflicts=_bank_conflicts(read),
        atomics=_atomics(read, spec, kernel, profile.tier == "modelled"),
        occupancy=read.share("Achieved Occupancy", "Theoretical Occupancy", "ptxas Theoretical Occupancy"),
        registers=read.first("Registers Per Thread", "ptxas Registers"),
        register_limited=_limited(read, spec, kernel, "Registers"),
        shared_limited=_limited(read, spec, kernel, "Shared Mem"),
        spill_bytes=_sum(read.number("ptxas Spill Stores"), read.number("ptxas Spill Loads")),
        local_share=_part(local, executed),
        active_lanes=None if lanes is None else min(1.0, lanes / WARP),
        branch_efficiency=_branch_efficiency(read),
        barrier_share=_barrier_share(kernel, read),
        balance=_balance(read, spec, kernel),
        threads=_volume(kernel.block),
        moved_over_floor=moved / floor_bytes if moved is not None and floor_bytes else None,
        floor_rate=_floor_rate(profile, spec, kernel, floor_bytes),
        copy=kernel.name.startswith("["),
    )


class _Reader:
    """Numbers of one kernel's profile by metric name. Shares are read only from metrics in percent, since
    Nsight Compute gives some names both to a rate and to a share."""

    def __init__(self, kernel: KernelProfile) -> None:
        self._kernel = kernel
        self.advice = kernel.advice

    def number(self, name: str, unit: str | None = None) -> float | None:
        for metric in self._kernel.metrics:
            if metric.name == name and isinstance(metric.value, float) and unit in (None, metric.unit):
                return metric.value
        return None

    def first(self, *names: str) -> float | None:
        found = (self.number(name) for name in names)
        return next((value for value in found if value is not None), None)

    def share(self, *names: str) -> float | None:
        found = (self.number(name, "%") for name in names)
        percent = next((value for value in found if value is not None), None)
        return None if percent is None else min(1.0, max(0.0, percent / 100))


def _pipes(kernel: KernelProfile) -> dict[str, float]:
    """Utilization (0 to 1) of arithmetic pipes by name: of every pipe in a modelled profile; from Nsight
    Compute only the busiest one, which its advice names."""
    pipes = {}
    for metric in kernel.metrics:
        name = metric.name.removeprefix("Pipe ")
        if name != metric.name and name not in LEADERS and isinstance(metric.value, float):
            pipes[name] = min(1.0, metric.value / 100)
    for advice in kernel.advice:
        if found := HIGHEST_PIPE.match(advice.message):
            name = found[1].split(" ")[0].lower()
            pipes[PIPES.get(name, name)] = min(1.0, float(found[2]) / 100)
    return pipes


def _access_excess(read: _Reader, modelled: bool, access_bytes: int | None) -> float | None:
    """Sectors that a memory request moves, as a multiple of those that it would need if it were coalesced: of
    loads or of stores, whichever is worse. `read` has the kernel's metrics; `modelled` says that they are a
    model's. None if neither loads nor stores were counted.

    The need depends on the bytes that a lane accesses at once, which counters do not tell: up to 16 sectors a
    request may be coalesced accesses of 16 bytes. They are called excessive only where `access_bytes` gives
    the width, where NCU looked at the source and says so, or where the modelled caches show that other
    requests came back for the rest of the same sectors: then a share of 1 - 4/sectors must hit.
    """
    told = [1 / max(0.03, 1 - float(found[1]) / 100) for found in map(_excessive, read.advice) if found]
    rates = {"ld": "L1/TEX Hit Rate", "st": "L2 Hit Rate"}  # NCU's count all stores as hits: of no use here
    hits = {way: read.share(name) for way, name in rates.items() if modelled}
    moved, excess = {}, {}
    for way, word in (("ld", "Load"), ("st", "Store")):
        requests, sectors = (read.number(GLOBAL.format(what, way)) for what in ("requests", "sectors"))
        if requests is None or sectors is None:
            requests, sectors = 1.0, read.number(f"{word} Sectors Per Request")
        if requests and sectors:
            moved[way] = sectors
            excess[way] = max(
                1.0, sectors / requests / _ideal(sectors / requests, hits.get(way), access_bytes)
            )
    counted = [e for way, e in excess.items() if moved[way] >= MATTERS * sum(moved.values())]
    return max([*counted, *told], default=None)


def _excessive(advice: ProfilerAdvice) -> re.Match[str] | None:
    return EXCESSIVE.search(advice.message)


def _ideal(sectors: float, hits: float | None, access_bytes: int | None) -> float:
    if access_bytes is not None:
        return access_bytes
    shown = hits is not None and hits >= 0.9 * (1 - WORD_BYTES / sectors)
    return WORD_BYTES if sectors > WIDEST_BYTES or shown else WIDEST_BYTES


def _bank_conflicts(read: _Reader) -> float | None:
    """Wavefronts that bank conflicts added, as a share (0 to 1) of all that shared and global memory cost in
    L1; from the PTX machine's counters alone, as a share of the warps' instructions. `read` has the kernel's
    metrics. None if not counted."""
    conflicts = read.number(SHARED.format("bank_conflicts_pipe_lsu"))
    if conflicts is not None:
        requests = (read.number(GLOBAL.format("requests", way)) for way in ("ld", "st"))
        return _part(conflicts, _sum(read.number(SHARED.format("pipe_lsu_wavefronts")), *requests))
    conflicts = read.number("Shared Bank Conflicts")
    return _part(conflicts, _sum(conflicts, read.number("Warp Instructions")))


def _branch_efficiency(read: _Reader) -> float | None:
    """The share (0 to 1) of branches in which no warp diverged, from the kernel's metrics in `read`; None if
    not counted. From emulated counters it is an upper bound: divergent branches are divided by all
    instructions."""
    divergent = _part(read.number("Divergent Branches"), read.number("Warp Instructions"))
    return read.share("Branch Efficiency") if divergent is None else 1 - divergent


def _atomics(read: _Reader, spec: GpuSpec | None, kernel: KernelProfile, modelled: bool) -> float | None:
    """The share (0 to 1) of the L2 cache's work that is atomics: atomic requests over all requests where
    `read` has these counts; if the profile is `modelled`, the L2 time that the kernel's traffic does not
    explain on the GPU `spec`. None if neither is known."""
    counted = [read.number(GLOBAL.format("requests", way)) for way in ("atom", "red", "ld", "st")]
    if counted[0] is not None or counted[1] is not None:
        atomic, every = (sum(v or 0.0 for v in part) for part in (counted[:2], counted))
        return _part(atomic, every)
    l2, dram = read.share("L2 Cache Throughput"), read.share("DRAM Throughput")
    moved = _sum(read.number("dram__bytes_read.sum"), read.number("dram__bytes_write.sum"))
    loaded, stored = (read.number(GLOBAL.format("sectors", way)) for way in ("ld", "st"))
    stores = read.number(GLOBAL.format("requests", "st"))
    if not modelled or spec is None or not l2 or not dram or not moved or loaded is None or stored is None:
        return None
    # The same bytes keep the L2 cache busy for a shorter time than device memory, but for the lines that
    # are written in parts, and where few multiprocessors share its rate.
    partial = PARTIAL_LINE if stores and stored / stores > WORD_BYTES else 1
    traffic = max(1.0, (loaded + partial * stored) * SECTOR_BYTES / moved)
    return max(0.0, 1 - dram * traffic / (l2 * _used(spec, kernel)))


def _barrier_share(kernel: KernelProfile, read: _Reader) -> float | None:
    """The share (0 to 1) of the cycles between two instructions of a warp that it waits at a barrier, from
    the kernel's metrics; None if stalls were not measured."""
    stalls = {
        found[1]: metric.value
        for metric in kernel.metrics
        if isinstance(metric.value, float) and (found := STALL.match(metric.name))
    }
    if "barrier" not in stalls:
        return None
    total = read.number("Warp Cycles Per Issued Instruction") or sum(stalls.values())
    return _part(stalls["barrier"], total)


def _limited(read: _Reader, spec: GpuSpec | None, kernel: KernelProfile, what: str) -> bool:
    """Whether `what` ("Registers" or "Shared Mem") is what limits the number of the kernel's blocks on an SM,
    by the metrics in `read` and the limits of the GPU `spec`; False if that is not known."""
    others = [read.number(f"Block Limit {name}") for name in ("SM", "Registers", "Shared Mem", "Warps")]
    mine = read.number(f"Block Limit {what}")
    if mine is not None:
        return mine == min(v for v in others if v is not None) and mine < (others[3] or 0)
    occupancy = read.share("Theoretical Occupancy", "ptxas Theoretical Occupancy")
    if spec is None or not occupancy:
        return False
    limits, threads = limits_of(spec.architecture), _volume(kernel.block)
    blocks = occupancy * limits.threads / max(threads, 1)
    if what == "Registers":
        needed, room = (
            (read.first("Registers Per Thread", "ptxas Registers") or 0) * threads,
            limits.registers,
        )
    else:
        fixed = read.first("Static Shared Memory Per Block", "ptxas Static Shared Memory") or 0
        needed = fixed + (read.number("Dynamic Shared Memory Per Block") or 0)
        room = limits.shared_bytes
    otherwise = (blocks + 1) * threads <= limits.threads and blocks + 1 <= limits.blocks
    return otherwise and (blocks + 1) * needed > room


def _balance(read: _Reader, spec: GpuSpec | None, kernel: KernelProfile) -> float | None:
    """The share (0 to 1) of the SMs' time that the kernel uses on the GPU `spec` if all its blocks take
    equally long: below 1 where the last wave of blocks does not fill the GPU. None if it is not known."""
    blocks, count = _volume(kernel.grid), read.number("# SMs") or (spec.multiprocessors if spec else None)
    waves = read.number("Waves Per SM")
    if waves is None:
        occupancy = read.share("ptxas Theoretical Occupancy")
        if not occupancy or spec is None:
            return None
        resident = occupancy * limits_of(spec.architecture).threads / max(_volume(kernel.block), 1)
        waves = blocks / (spec.multiprocessors * max(1.0, resident))
    if waves > 1:
        return waves / ceil(waves)
    return blocks / (count * ceil(blocks / count)) if count else None


def _floor_rate(
    profile: Profile, spec: GpuSpec | None, kernel: KernelProfile, floor_bytes: int | None
) -> float | None:
    """The share (0 to 1) of the peak DRAM rate of the GPU `spec` that `floor_bytes`, the least traffic of the
    call, would use in the kernel's time; None if the call has several kernels, or if time, GPU or
    `floor_bytes` are unknown."""
    if len(profile.kernels) != 1 or spec is None or not floor_bytes or not kernel.duration_us:
        return None
    return min(1.0, floor_bytes / (kernel.duration_us * spec.dram_gb_s * 1e3))


def _used(spec: GpuSpec | None, kernel: KernelProfile) -> float:
    """The share (0 to 1) of the SMs of the GPU `spec` that get at least one of the kernel's blocks; 1 if the
    GPU is not known."""
    return 1.0 if spec is None else min(1.0, _volume(kernel.grid) / spec.multiprocessors)


def _volume(extents: tuple[int, int, int]) -> int:
    x, y, z = extents
    return x * y * z


def _sum(*values: float | None) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _times(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def _part(part: float | None, whole: float | None) -> float | None:
    if part is None or whole is None:
        return None
    return min(1.0, part / whole) if whole > 0 else 0.0
