"""Turns the modelled time and the emulator's counters of a launch into metrics with the names that Nsight
Compute uses."""

from collections.abc import Iterator, Mapping
from typing import Any

from kernelblaster.devices.gpu_model import KernelTime, blocks_of, threads_of
from kernelblaster.devices.occupancy import WARP, limits_of
from kernelblaster.devices.specs import GpuSpec
from kernelblaster.records import KernelProfile, Metric, Resources

STALLS = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
COUNTERS = "Command line profiler metrics"
LIGHT = "GPU Speed Of Light Throughput"


def kernel_profile(
    spec: GpuSpec, work: Mapping[str, Any], resources: Resources, report: Mapping[str, Any], time: KernelTime
) -> KernelProfile:
    """The profile of one launch whose time is modelled for the GPU `spec`, with Nsight Compute's metric
    names. `work` describes the launch by its "name", "grid", "block" and "shared_bytes". `resources` is
    ptxas' report on the kernel. `report` has the emulator's counters of the blocks that were run. `time` is
    the result of `kernel_time` for this launch."""
    values = (*_speed(spec, time), *_counters(work, report, time), *_launch(spec, work, resources, time))
    metrics = tuple(
        Metric(name=name, unit=unit, value=float(value), tier="modelled", section=section)
        for section, name, unit, value in values
    )
    return KernelProfile(name=work["name"], grid=work["grid"], block=work["block"], metrics=metrics)


def copy_profile(work: Mapping[str, Any], duration_us: float) -> KernelProfile:
    """The profile of a fill or copy, which has only one metric, `duration_us`. `work` has its name, grid and
    block of threads."""
    metric = Metric(name="Duration", unit="us", value=duration_us, tier="modelled", section=LIGHT)
    return KernelProfile(name=work["name"], grid=work["grid"], block=work["block"], metrics=(metric,))


def _speed(spec: GpuSpec, time: KernelTime) -> Iterator[tuple[str, str, str, float]]:
    """Yields the metrics that say how near a modelled launch is to the GPU's peak rates (speed of light, use
    of each pipe), each as (section, name, unit, value)."""

    def percent(part_us: float) -> float:
        return 100 * min(1.0, part_us / time.total_us)

    pipes = time.pipes_us
    dram = percent((time.dram_read_bytes + time.dram_write_bytes) / (spec.dram_gb_s * 1e3))
    l1 = percent(max(pipes["l1"], pipes["memory"]))
    compute = percent(max(v for name, v in pipes.items() if name not in ("l1", "memory")))
    yield LIGHT, "Duration", "us", time.total_us
    yield LIGHT, "DRAM Throughput", "%", dram
    yield LIGHT, "L1/TEX Cache Throughput", "%", l1
    yield LIGHT, "L2 Cache Throughput", "%", percent(time.l2_us)
    yield LIGHT, "Memory Throughput", "%", max(dram, l1, percent(time.l2_us))
    yield LIGHT, "Compute (SM) Throughput", "%", compute
    yield "Compute Workload Analysis", "Issue Slots Busy", "%", percent(pipes["issue"])
    for name, part_us in pipes.items():
        yield "Compute Workload Analysis", f"Pipe {name}", "%", percent(part_us)
    rate = (time.dram_read_bytes + time.dram_write_bytes) / time.total_us * 1e6
    yield "Memory Workload Analysis", "Memory Throughput", "byte/s", rate


def _counters(
    work: Mapping[str, Any], report: Mapping[str, Any], time: KernelTime
) -> Iterator[tuple[str, str, str, float]]:
    """Yields counter metrics as (section, name, unit, value): the emulator's counts in `report`, scaled from
    the sampled blocks to the whole grid. `work` is the launch, `time` its modelled time."""
    counts, costs = report["counts"], report["costs"]
    scale = blocks_of(work) / max(costs["sampled"], 1)
    wavefronts = counts["shared_load_wavefronts"] + counts["shared_store_wavefronts"]
    instructions = counts["total_warp_instructions"]
    shared = "l1tex__data_{}_mem_shared.sum"
    each = "l1tex__t_{}_pipe_lsu_mem_global_op_{}.sum"
    yield COUNTERS, "dram__bytes_read.sum", "byte", time.dram_read_bytes
    yield COUNTERS, "dram__bytes_write.sum", "byte", time.dram_write_bytes
    yield COUNTERS, shared.format("bank_conflicts_pipe_lsu"), "", counts["shared_bank_conflicts"] * scale
    yield COUNTERS, shared.format("pipe_lsu_wavefronts"), "", wavefronts * scale
    for name, way in (("load", "ld"), ("store", "st")):
        yield COUNTERS, each.format("requests", way), "", counts[f"global_{name}_requests"] * scale
        yield COUNTERS, each.format("sectors", way), "sector", counts[f"global_{name}_sectors"] * scale
    yield COUNTERS, "smsp__inst_executed.sum", "inst", costs["pipes"]["issue"] * scale
    tensor = counts["warp_instructions"]["tensor"]
    yield COUNTERS, "smsp__inst_executed_pipe_tensor.sum", "inst", tensor * scale
    yield COUNTERS, "smsp__sass_inst_executed_op_local.sum", "inst", counts["local_requests"] * scale
    lanes = counts["thread_instructions"] / max(instructions, 1)
    yield COUNTERS, "smsp__thread_inst_executed_per_inst_executed.ratio", "", lanes
    hits = 100 * costs["l1_hits"] / max(costs["l1_sectors"], 1)
    yield "Memory Workload Analysis", "L1/TEX Hit Rate", "%", hits
    dram = time.dram_read_bytes + time.dram_write_bytes
    yield "Memory Workload Analysis", "L2 Hit Rate", "%", 100 * max(0.0, 1 - dram / max(time.l2_bytes, 1))
    yield "Source Counters", "Branch Instructions", "inst", counts["branches"] * scale
    whole = 100 * (1 - counts["divergent_branches"] / max(counts["branches"], 1))
    yield "Source Counters", "Branch Efficiency", "%", whole
    yield "Sampling", "Blocks Executed", "block", costs["sampled"]


def _launch(
    spec: GpuSpec, work: Mapping[str, Any], resources: Resources, time: KernelTime
) -> Iterator[tuple[str, str, str, float]]:
    """Yields the metrics of a modelled launch that follow from its shape and its kernel's resources, each as
    (section, name, unit, value): grid, block, registers, shared memory, occupancy, and where warps stall."""
    threads, blocks = threads_of(work), blocks_of(work)
    warps = -(-threads // WARP)
    most = time.residency.blocks_per_sm
    possible = limits_of(spec.architecture).threads // WARP
    theoretical = 100 * most * warps / possible
    achieved = 100 * min(most, blocks / spec.multiprocessors) * warps / possible
    yield "Launch Statistics", "Grid Size", "", blocks
    yield "Launch Statistics", "Block Size", "", threads
    yield "Launch Statistics", "Registers Per Thread", "register/thread", resources.registers
    yield "Launch Statistics", "Static Shared Memory Per Block", "byte/block", resources.shared_bytes
    yield "Launch Statistics", "Dynamic Shared Memory Per Block", "byte/block", work["shared_bytes"]
    yield "Launch Statistics", "Waves Per SM", "", blocks / (spec.multiprocessors * most)
    yield "Occupancy", "Theoretical Occupancy", "%", theoretical
    yield "Occupancy", "Achieved Occupancy", "%", achieved
    issue, total = time.pipes_us["issue"], time.total_us
    active = max(1.0, achieved / 100 * possible / 4)
    waiting = active * total / max(issue, 1e-9)  # warp cycles for each instruction that was issued
    memory = min(1.0, max(time.dram_us, time.l2_us, time.latency_us) / total)
    yield COUNTERS, STALLS.format("long_scoreboard"), "", waiting * memory
    throttled = max(time.pipes_us["l1"], time.pipes_us["memory"]) / total
    yield COUNTERS, STALLS.format("mio_throttle"), "", waiting * min(1.0, throttled) * (1 - memory)
