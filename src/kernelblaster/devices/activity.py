"""Profiles where Nsight Compute cannot be used: only the duration of each launch, from CUDA events around
it."""

from collections.abc import Sequence

from kernelblaster.devices.device import LaunchedWork, ProfileJob, Runner
from kernelblaster.records import KernelProfile, Metric, Profile

REPEATS = 5


def profile(runner: Runner, job: ProfileJob, device: str) -> Profile:
    """A profile from timing alone: for each kernel, copy or fill of one call of `job`, in launch order, its
    median duration in us over five calls (REPEATS) and its dynamic shared memory in bytes. `device` is the
    name to record. Closes the runner."""
    try:
        runner.call(job.arguments, scratch_poison=-1, accounting=False)
        calls = [runner.call(job.arguments, scratch_poison=-1, accounting=True).work for _ in range(REPEATS)]
    finally:
        runner.close()
    return profile_of(calls, job.workload, device)


def profile_of(calls: Sequence[Sequence[LaunchedWork]], workload: str, device: str) -> Profile:
    """The profile made from the timed launches of one or more equal calls, each a list in launch order: for
    each launch its median duration in us over these calls and its dynamic shared memory in bytes. `workload`
    and `device` are names to record."""
    kernels = []
    for position, work in enumerate(calls[0]):
        durations = sorted(c[position].duration_us or 0.0 for c in calls if len(c) > position)
        metrics = (
            _metric("Duration", "us", durations[len(durations) // 2]),
            _metric("Dynamic Shared Memory Per Block", "byte/block", float(work.shared_bytes)),
        )
        kernels.append(KernelProfile(name=work.name, grid=work.grid, block=work.block, metrics=metrics))
    return Profile(device=device, tier="activity", workload=workload, kernels=tuple(kernels))


def _metric(name: str, unit: str, value: float) -> Metric:
    """A metric marked with the tier "activity", that is, taken from event timing and not from performance
    counters."""
    return Metric(name=name, unit=unit, value=value, tier="activity")
