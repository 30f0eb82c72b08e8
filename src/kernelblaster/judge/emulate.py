"""What the judge does differently on the emulator, which executes every instruction: it verifies candidates
at small workloads only, and reports exact counts of the instructions and memory accesses of a call."""

from collections.abc import Mapping, Sequence
from typing import Any

from kernelblaster.devices.device import LaunchedWork
from kernelblaster.errors import BadTask
from kernelblaster.records import KernelProfile, Metric, Profile, Task, Workload

LARGEST_BYTES = 4 << 20  # of all tensors of a workload


def small_workload(task: Task) -> Workload:
    """Returns the workload (choice of all sizes) at which candidates of this task are run on the emulator:
    one whose tensors take at most 4 MiB together (LARGEST_BYTES). Raises BadTask if the task has none."""
    workload = task.small
    if workload is None or workload.total_bytes(task.signature) > LARGEST_BYTES:
        if task.kind == "cuda":
            advice = "end each `// size:` line with a small value (`, small 1000`; docs/tasks.md)"
        else:
            advice = "name its sizes and give small ones with SMALL (docs/tasks.md)"
        raise BadTask(
            f"{task.name}: has no workload that is small enough to be emulated, by smaller numbers in its "
            f"file or by smaller inputs; {advice}, or use a GPU."
        )
    return workload


def counters(device: str, workload: str, work: Sequence[LaunchedWork]) -> Profile | None:
    """Makes a profile of the emulator's counts of one call, kernel by kernel. `work` is what the call put on
    the device. `device` and `workload` are names to record. None if `work` has no counts, as on a GPU."""
    kernels = [
        KernelProfile(name=w.name, grid=w.grid, block=w.block, metrics=_metrics(w.counts))
        for w in work
        if w.counts is not None
    ]
    if not kernels:
        return None
    return Profile(device=device, tier="emulated", workload=workload, kernels=tuple(kernels))


def _metrics(counts: Mapping[str, Any]) -> tuple[Metric, ...]:
    """The emulator's counts of one kernel (`counts`, by name) as metrics for a profile, such as active lanes
    per warp instruction and sectors per request. A ratio whose denominator is zero is left out."""
    values = {
        "Warp Instructions": ("inst", counts["total_warp_instructions"]),
        "Active Lanes": ("thread", _ratio(counts, "thread_instructions", "total_warp_instructions")),
        "Load Sectors Per Request": ("sector", _ratio(counts, "global_load_sectors", "global_load_requests")),
        "Store Sectors Per Request": (
            "sector",
            _ratio(counts, "global_store_sectors", "global_store_requests"),
        ),
        "Shared Bank Conflicts": ("wavefront", counts["shared_bank_conflicts"]),
        "Divergent Branches": ("inst", counts["divergent_branches"]),
    }
    return tuple(
        Metric(name=name, unit=unit, value=float(value), tier="emulated")
        for name, (unit, value) in values.items()
        if value is not None
    )


def _ratio(counts: Mapping[str, Any], above: str, below: str) -> float | None:
    """The count named `above` divided by the one named `below`; None if the latter is zero."""
    return counts[above] / counts[below] if counts[below] else None
