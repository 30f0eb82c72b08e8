"""Modelled profiles: some blocks of each launch run on the PTX machine, and the GPU model computes times from
their cost."""

from collections.abc import Mapping
from typing import Any

from kernelblaster.devices.device import CandidateDied, Pointer, ProfileJob
from kernelblaster.devices.device_code import resources_in
from kernelblaster.devices.gpu_model import copy_us, kernel_time, model_values, residency_of
from kernelblaster.devices.modelled_metrics import copy_profile, kernel_profile
from kernelblaster.devices.replay import ReplayRunner
from kernelblaster.devices.specs import GpuSpec
from kernelblaster.ptx.machine import NotEmulated
from kernelblaster.records import KernelProfile, Profile, Resources

MOST_BLOCKS = 64
MOST_INSTRUCTIONS = 20_000_000  # of warps, in one launch: no further block is begun after so many
UNKNOWN = dict.fromkeys(
    ("shared_bytes", "constant_bytes", "stack_bytes", "spill_store_bytes", "spill_load_bytes", "barriers"), 0
)


def modelled_profile(
    runner: ReplayRunner, spec: GpuSpec, device: str, job: ProfileJob, period: int
) -> Profile:
    """The kernels of the job's call in launch order, with modelled durations for the GPU `spec`; `device` is
    the name to record. Reads beyond the first `period` bytes of a tensor wrap around to its beginning. Raises
    CandidateDied if the call fails, NotEmulated if a kernel's time cannot be modelled from a sample of its
    blocks."""
    plan = runner.recorded(job.arguments)
    if plan.errors or plan.violations:
        raise CandidateDied((*plan.errors, *plan.violations)[0])
    number = runner.mapped(job.arguments)
    for pointer in job.arguments:
        if isinstance(pointer, Pointer) and pointer.bytes > 2 * period:
            runner.ask(f"repeat {pointer.address} {pointer.bytes} {period}")
    resources = resources_in(job.binary.parent)

    def count(in_order: bool) -> dict[str, Any]:
        values: list[float] = []
        for launch in plan.launches:
            work = {"grid": launch.grid, "block": launch.block, "shared_bytes": launch.shared_bytes}
            residency = residency_of(spec, work, _of(resources, launch.kernel))
            values += model_values(spec, residency, MOST_BLOCKS, MOST_INSTRUCTIONS, in_order)
        words = " ".join(f"{value:.17g}" for value in values)
        return runner.ask(f"count {number} {len(plan.launches)} {words}")

    answer = count(in_order=False)
    if answer["error"] and not answer["work"]:
        raise CandidateDied(answer["error"])
    if any(work.get("report", {}).get("stopped") for work in answer["work"]):
        # Blocks may wait for those before them, or use what those left: then the first ones, in order.
        answer = count(in_order=True)
    done = [_profile_of(spec, work, resources) for work in answer["work"]]
    return Profile(device=device, tier="modelled", workload=job.workload, kernels=tuple(done))


def _profile_of(spec: GpuSpec, work: Mapping[str, Any], resources: Mapping[str, Resources]) -> KernelProfile:
    """The profile of one piece of work from the player's answer `work`; `resources` are ptxas' reports by
    mangled name. Raises as `modelled_profile` does."""
    if work["name"].startswith("["):
        return copy_profile(work, copy_us(spec, work["bytes"]))
    report = work["report"]
    if "invalid" in report:
        raise CandidateDied(f"{work['name']}: invalid launch: {report['invalid']}")
    if "costs" not in report or report["stopped"]:
        found = [f"{f['kind']} in line {f['line']}: {f['detail']}" for f in report.get("findings", [])]
        reason = found[0] if found else "it did not run"
        raise NotEmulated(
            f"{work['name']}: its time cannot be modelled from some of its blocks alone: {reason}."
        )
    mine = _of(resources, work["name"])
    return kernel_profile(spec, work, mine, report, kernel_time(spec, work, mine, report))


def _of(resources: Mapping[str, Resources], kernel: str) -> Resources:
    """ptxas' report on a kernel; a plausible stand-in (32 registers, nothing else) if there is none."""
    return resources.get(kernel) or Resources(kernel=kernel, registers=32, **UNKNOWN)
