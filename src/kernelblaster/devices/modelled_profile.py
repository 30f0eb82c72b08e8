"""Profiles without a GPU: some blocks of each launch run on the PTX machine, the emulator, and the timing
model of `gpu_model` computes the whole launch's time from their cost."""

import secrets
import time
from collections.abc import Mapping
from typing import Any

from kernelblaster.devices.device import CandidateDied, Pointer, ProfileJob
from kernelblaster.devices.device_code import resources_in
from kernelblaster.devices.gpu_model import SampledBlocks, copy_us, kernel_time, model_values, residency_of
from kernelblaster.devices.modelled_metrics import copy_profile, kernel_profile
from kernelblaster.devices.replay import ReplayRunner
from kernelblaster.devices.specs import GpuSpec
from kernelblaster.ptx.machine import NotEmulated
from kernelblaster.records import KernelProfile, Profile, Resources

MOST_BLOCKS = 64
FEW_BLOCKS = 16  # for a second look
UNEVEN = 8  # times the average: the longest block of a launch whose blocks share out work
MOST_INSTRUCTIONS = 20_000_000  # of warps, in one launch: no further block is begun after so many
UNKNOWN = dict.fromkeys(
    ("shared_bytes", "constant_bytes", "stack_bytes", "spill_store_bytes", "spill_load_bytes", "barriers"), 0
)


def modelled_profile(
    runner: ReplayRunner, spec: GpuSpec, device: str, job: ProfileJob, period: int
) -> Profile:
    """Returns a profile of the job's call, which `runner` runs on the emulator, with modelled durations for
    the GPU `spec`, kernels in launch order; `device` is the name to record. In tensors of more than `period`
    bytes, reads beyond the first `period` bytes wrap around to the beginning, so only that much of them needs
    to be filled. Raises CandidateDied if the call fails, CandidateHung after the job's time limit,
    NotEmulated if a kernel's time can be modelled neither from some of its blocks nor from all of them."""
    plan = runner.recorded(job.arguments)
    if plan.errors or plan.violations:
        raise CandidateDied((*plan.errors, *plan.violations)[0])
    number = runner.mapped(job.arguments)
    end = time.monotonic() + (job.model_limit_s or 0.0)
    for pointer in job.arguments:
        if isinstance(pointer, Pointer) and pointer.bytes > period:
            runner.ask(f"repeat {pointer.address} {pointer.bytes} {period}")
    resources = resources_in(job.binary.parent)

    def count(sampled: SampledBlocks) -> dict[str, Any]:
        values: list[float] = []
        for launch in plan.launches:
            work = {"grid": launch.grid, "block": launch.block, "shared_bytes": launch.shared_bytes}
            residency = residency_of(spec, work, _of(resources, launch.kernel))
            values += model_values(spec, residency, blocks, MOST_INSTRUCTIONS, sampled)
        words = " ".join(f"{value:.17g}" for value in values)
        left_s = None if job.model_limit_s is None else max(0.1, end - time.monotonic())
        return runner.ask(f"count {number} {secrets.randbelow(256)} {len(plan.launches)} {words}", left_s)

    # Blocks may need what those before them left, or wait for those behind them.
    together = any(launch.cooperative for launch in plan.launches)
    blocks = MOST_BLOCKS if job.shift is None else FEW_BLOCKS
    ways = (SampledBlocks("spread", job.shift or 0.0), SampledBlocks("first"), SampledBlocks("all"))
    for sampled in ways[2:] if together else ways:
        answer = count(sampled)
        if answer["error"] and not answer["work"]:
            raise CandidateDied(answer["error"])
        if all(_representative(work.get("report", {})) for work in answer["work"]):
            break
    done = [_profile_of(spec, work, resources) for work in answer["work"]]
    return Profile(device=device, tier="modelled", workload=job.workload, kernels=tuple(done))


def _representative(report: Mapping[str, Any]) -> bool:
    """Whether the blocks that were run stand for all blocks of a launch: they ran to their end and, where
    blocks share out work among themselves by atomics, the first ones did not take most of it."""
    costs = report.get("costs")
    if costs is None or report["apart"]:
        return not report.get("stopped")
    uneven = costs["sampled"] > 2 and costs["longest"] * costs["sampled"] > UNEVEN * costs["latency"]
    return not report["stopped"] and not uneven


def _profile_of(spec: GpuSpec, work: Mapping[str, Any], resources: Mapping[str, Resources]) -> KernelProfile:
    """The profile of one launch, copy or fill from `work`, its entry in the player's answer; `resources` are
    ptxas' reports by mangled name. Raises CandidateDied for an invalid launch, NotEmulated if its time cannot
    be modelled."""
    if work["name"].startswith("["):
        return copy_profile(work, copy_us(spec, work["bytes"]))
    report = work["report"]
    if "invalid" in report:
        raise CandidateDied(f"{work['name']}: invalid launch: {report['invalid']}")
    if "costs" not in report or report["stopped"]:
        found = [f"{f['kind']} in line {f['line']}: {f['detail']}" for f in report.get("findings", [])]
        too_much = "too much work for all of them" if report.get("exhausted") else "it did not run"
        reason = found[0] if found else too_much
        raise NotEmulated(
            f"{work['name']}: its time cannot be modelled from its blocks at the primary workload: {reason}."
        )
    mine = _of(resources, work["name"])
    return kernel_profile(spec, work, mine, report, kernel_time(spec, work, mine, report))


def _of(resources: Mapping[str, Resources], kernel: str) -> Resources:
    """ptxas' report on `kernel`; if there is none, a stand-in with 32 registers and no other resources."""
    return resources.get(kernel) or Resources(kernel=kernel, registers=32, **UNKNOWN)
