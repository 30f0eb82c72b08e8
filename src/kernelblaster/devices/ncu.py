"""Profiles candidates with Nsight Compute's command line: many in one start, parsed from its CSV output."""

import csv
import io
from collections.abc import Sequence

from kernelblaster.devices.device import ProfileJob
from kernelblaster.devices.toolbox import Toolbox
from kernelblaster.errors import DeviceLost
from kernelblaster.records import KernelProfile, Metric, Profile, ProfilerAdvice
from kernelblaster.records.profile import Depth
from kernelblaster.settings import settings

QUICK_SECTIONS = ("LaunchStats", "Occupancy")
SECTIONS = (
    *QUICK_SECTIONS,
    "SpeedOfLight",
    "ComputeWorkloadAnalysis",
    "SchedulerStats",
    "WarpStateStats",
)
# Counted by patched code: 15 s for the memory workload of a kernel of 45 ms that the others need 2 s for.
DETAILED_SECTIONS = ("MemoryWorkloadAnalysis", "InstructionStats", "SourceCounters")
DETAILED_METRICS = ("smsp__sass_inst_executed_op_local.sum",)
METRICS = (
    "dram__bytes_read.sum",
    "dram__bytes_write.sum",
    "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
    "l1tex__t_requests_pipe_lsu_mem_global_op_atom.sum",
    "l1tex__t_requests_pipe_lsu_mem_global_op_red.sum",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum",
    "smsp__inst_executed.sum",
    "smsp__inst_executed_pipe_tensor.sum",
    "smsp__thread_inst_executed_per_inst_executed.ratio",
    *(
        f"smsp__average_warps_issue_stalled_{reason}_per_issue_active.ratio"
        for reason in (
            "barrier",
            "lg_throttle",
            "long_scoreboard",
            "math_pipe_throttle",
            "mio_throttle",
            "not_selected",
            "short_scoreboard",
            "wait",
        )
    ),
)
OF_PEAK = "{}.avg.pct_of_peak_sustained_{}"
# What states are named from, in 8 passes over a kernel instead of the 25 of all sections: these are the few
# of their metrics that are needed for it, by the names that the sections give them.
QUICK_METRICS = {
    "gpu__time_duration.sum": "Duration",
    OF_PEAK.format("gpu__dram_throughput", "elapsed"): "DRAM Throughput",
    OF_PEAK.format("lts__throughput", "elapsed"): "L2 Cache Throughput",
    OF_PEAK.format("l1tex__throughput", "active"): "L1/TEX Cache Throughput",
    OF_PEAK.format("sm__inst_issued", "active"): "Issue Slots Busy",
    OF_PEAK.format("sm__pipe_alu_cycles_active", "active"): "Pipe alu",
    OF_PEAK.format("sm__pipe_fma_cycles_active", "active"): "Pipe fma",
    OF_PEAK.format("sm__pipe_fp64_cycles_active", "active"): "Pipe fp64",
    OF_PEAK.format("sm__pipe_tensor_cycles_active", "active"): "Pipe tensor",
    OF_PEAK.format("sm__inst_executed_pipe_xu", "active"): "Pipe special",
    "smsp__average_warp_latency_per_inst_issued.ratio": "Warp Cycles Per Issued Instruction",
}


def profile(toolbox: Toolbox, jobs: Sequence[ProfileJob], device: str) -> list[Profile] | None:
    """Runs all jobs (one call of a candidate each) under one start of ncu, by way of `toolbox`. Returns one
    profile for each, or None if this machine forbids performance counters. The field `depth` must be equal in
    all jobs. `device` is the name to record. Raises DeviceLost if ncu reports other kernels than were
    launched."""
    tool = settings().ncu
    assert tool is not None
    command = [tool, "--profile-from-start", "off", "--clock-control", "none", "--csv"]
    depth = jobs[0].depth
    assert all(job.depth == depth for job in jobs)
    metrics, sections = _counted(depth)
    command += ["--page", "details", "--metrics", ",".join(metrics)]
    for section in sections:
        command += ["--section", section]
    if depth == "quick":
        command += ["--apply-rules", "no"]
    searching = depth != "detailed"  # and will profile again soon
    output, answers = toolbox.run(command, jobs, again=searching)
    if "ERR_NVGPUCTRPERM" in output or "LibraryNotLoaded" in output:
        return None
    kernels = parse(output)
    counts = [sum(not work.name.startswith("[") for work in report.work) for report in answers]
    if len(counts) != len(jobs) or sum(counts) != len(kernels):
        raise DeviceLost(f"ncu reported {len(kernels)} kernels where {counts} ran: {output[-400:].strip()}")
    profiles = []
    for job, count in zip(jobs, counts, strict=True):
        mine, kernels = kernels[:count], kernels[count:]
        profiles.append(Profile(device=device, tier="ncu", workload=job.workload, kernels=tuple(mine)))
    return profiles


def _counted(depth: Depth) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What Nsight Compute is told to collect, as (metrics, sections), its options --metrics and --section.
    `depth` says how much: "quick", "usual" or "detailed"."""
    if depth == "quick":
        return METRICS + tuple(QUICK_METRICS), QUICK_SECTIONS
    if depth == "usual":
        return METRICS, SECTIONS
    return METRICS + DETAILED_METRICS, SECTIONS + DETAILED_SECTIONS


def parse(text: str) -> list[KernelProfile]:
    """The kernels in the output of `ncu --csv --page details`, in launch order; text before the table is
    skipped. Empty if there is no table."""
    start = text.find('"ID"')
    if start < 0:
        return []
    by_id: dict[int, _Rows] = {}
    for row in csv.DictReader(io.StringIO(text[start:])):
        identity = row.get("ID") or ""
        if identity.isdigit():
            by_id.setdefault(int(identity), _Rows(row)).add(row)
    return [by_id[identity].kernel() for identity in sorted(by_id)]


class _Rows:
    """Collects the CSV rows of one kernel, one for each metric and one for each piece of ncu's advice, into a
    KernelProfile."""

    def __init__(self, first: dict[str, str]) -> None:
        self._name = first["Kernel Name"]
        self._grid = _triple(first["Grid Size"])
        self._block = _triple(first["Block Size"])
        self._metrics: dict[tuple[str, str], Metric] = {}
        self._advice: list[ProfilerAdvice] = []

    def add(self, row: dict[str, str]) -> None:
        """Reads one row of ncu's CSV table, a dictionary by column name, which holds a metric, a rule's
        advice, or both."""
        section = row.get("Section Name") or ""
        name = row.get("Metric Name") or ""
        name = QUICK_METRICS.get(name, name)
        if name:
            value = _number(row.get("Metric Value") or "")
            unit = row.get("Metric Unit") or ""
            key = (section, name)
            self._metrics[key] = Metric(name=name, unit=unit, value=value, tier="ncu", section=section)
        if row.get("Rule Description"):
            self._advice.append(
                ProfilerAdvice(
                    rule=row.get("Rule Name") or "",
                    section=section,
                    message=" ".join((row["Rule Description"] or "").split()),
                    estimated_speedup_percent=_percent(row.get("Estimated Speedup") or ""),
                )
            )

    def kernel(self) -> KernelProfile:
        return KernelProfile(
            name=self._name,
            grid=self._grid,
            block=self._block,
            metrics=tuple(self._metrics.values()),
            advice=tuple(self._advice),
        )


def _triple(text: str) -> tuple[int, int, int]:
    """Parses a grid or block size of Nsight Compute's output, a text like `(4, 1, 1)`."""
    x, y, z = (int(part) for part in text.strip("() ").split(","))
    return x, y, z


def _number(text: str) -> float | str:
    """`text` as a float, without thousands separators; `text` itself if it is no number."""
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return text


def _percent(text: str) -> float | None:
    value = _number(text)
    return value if isinstance(value, float) else None
