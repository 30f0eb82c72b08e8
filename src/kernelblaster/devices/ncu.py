"""Nsight Compute by its command line: many candidates under one start, parsed from its CSV."""

import csv
import io
from collections.abc import Sequence

from kernelblaster.devices.device import ProfileJob
from kernelblaster.devices.toolbox import Toolbox
from kernelblaster.errors import DeviceLost
from kernelblaster.records import Advice, KernelProfile, Metric, Profile
from kernelblaster.settings import settings

SECTIONS = (
    "SpeedOfLight",
    "LaunchStats",
    "Occupancy",
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


def profile(
    toolbox: Toolbox, arena_handle: str, jobs: Sequence[ProfileJob], device: str
) -> list[Profile] | None:
    """One profile for each job, or None where counters are forbidden on this machine."""
    tool = settings().ncu
    assert tool is not None
    command = [tool, "--profile-from-start", "off", "--clock-control", "none", "--csv"]
    detailed = all(job.detailed for job in jobs)
    metrics = METRICS + (DETAILED_METRICS if detailed else ())
    command += ["--page", "details", "--metrics", ",".join(metrics)]
    for section in SECTIONS + (DETAILED_SECTIONS if detailed else ()):
        command += ["--section", section]
    searching = not detailed  # and will profile again soon
    output, answers = toolbox.run(command, arena_handle, jobs, again=searching)
    if "ERR_NVGPUCTRPERM" in output or "LibraryNotLoaded" in output:
        return None
    kernels = parse(output)
    counts = [sum(not work["name"].startswith("[") for work in a["work"]) for a in answers]
    if len(counts) != len(jobs) or sum(counts) != len(kernels):
        raise DeviceLost(f"ncu reported {len(kernels)} kernels where {counts} ran: {output[-400:].strip()}")
    profiles = []
    for job, count in zip(jobs, counts, strict=True):
        mine, kernels = kernels[:count], kernels[count:]
        profiles.append(Profile(device=device, tier="ncu", workload=job.workload, kernels=tuple(mine)))
    return profiles


def parse(text: str) -> list[KernelProfile]:
    """Kernels in launch order from `ncu --csv --page details`; other output before is skipped."""
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
    """What the lines of one kernel say."""

    def __init__(self, first: dict[str, str]) -> None:
        self._name = first["Kernel Name"]
        self._grid = _triple(first["Grid Size"])
        self._block = _triple(first["Block Size"])
        self._metrics: dict[tuple[str, str], Metric] = {}
        self._advice: list[Advice] = []

    def add(self, row: dict[str, str]) -> None:
        section = row.get("Section Name") or ""
        name = row.get("Metric Name") or ""
        if name:
            value = _number(row.get("Metric Value") or "")
            unit = row.get("Metric Unit") or ""
            key = (section, name)
            self._metrics[key] = Metric(name=name, unit=unit, value=value, tier="ncu", section=section)
        if row.get("Rule Description"):
            self._advice.append(
                Advice(
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
    x, y, z = (int(part) for part in text.strip("() ").split(","))
    return x, y, z


def _number(text: str) -> float | str:
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return text


def _percent(text: str) -> float | None:
    value = _number(text)
    return value if isinstance(value, float) else None
