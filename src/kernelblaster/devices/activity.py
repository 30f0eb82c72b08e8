"""Profiles where Nsight Compute cannot be used: only the duration of each launch, from CUDA events around
it."""

from collections.abc import Sequence

from kernelblaster.devices.device import LaunchedWork, ProfileJob, Runner
from kernelblaster.records import KernelProfile, Metric, Profile

REPEATS = 5


def profile(runner: Runner, job: ProfileJob, device: str) -> Profile:
    """Returns a profile from timing alone, for use where Nsight Compute cannot be used. The call that `job`
    describes is made five times (REPEATS), after one to warm up. For each of its kernels, copies and fills,
    in launch order, the profile has the median duration in us and the dynamic shared memory in bytes.
    `device` is the name of the device to record. Closes `runner`, in which the candidate is loaded."""
    try:
        runner.call(job.arguments, scratch_poison=-1, accounting=False)
        calls = [runner.call(job.arguments, scratch_poison=-1, accounting=True).work for _ in range(REPEATS)]
    finally:
        runner.close()
    return profile_of(calls, job.workload, device)


def profile_of(calls: Sequence[Sequence[LaunchedWork]], workload: str, device: str) -> Profile:
    """Makes a profile of the timed launches of one or more equal calls, each given as its launches, copies
    and fills in order. For each of these it has the median duration in us over the calls and the dynamic
    shared memory in bytes. `workload` and `device` are names to record."""
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
