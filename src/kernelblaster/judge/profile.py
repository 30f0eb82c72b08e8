"""Why is it slow? Kernels in launch order, with counters where the machine permits them, and with
what ptxas said of each kernel in any case."""

import random
from collections.abc import Sequence

from kernelblaster.devices.device import Device, ProfileJob
from kernelblaster.devices.occupancy import occupancy_percent
from kernelblaster.judge.baseline import Baseline
from kernelblaster.judge.compile import Binary
from kernelblaster.judge.layout import Layout, lay_out
from kernelblaster.records import KernelProfile, Metric, Profile, Resources, Task, Workload
from kernelblaster.records.kernel_name import source_name
from kernelblaster.tasks.values import fill


def filled_layout(device: Device, task: Task, baseline: Baseline, workload: Workload) -> Layout:
    """The workload in the arena with the file's own kind of values."""
    baseline = baseline.at(workload)
    layout = lay_out(device.arena(0), task.signature, workload, random.Random(0))
    for position, tensor in enumerate(task.signature.input_tensors):
        fill(layout.view(tensor), baseline.pools[position], "written", workload, position)
    for tensor, original in zip(task.signature.parameters, baseline.parameters, strict=True):
        layout.view(tensor).copy_(original)
    return layout


def profile_candidates(
    device: Device, task: Task, baseline: Baseline, binaries: Sequence[Binary], *, detailed: bool = True
) -> list[Profile]:
    """One profile for each binary, on the primary workload, all under one start of the profiler."""
    layout = filled_layout(device, task, baseline, task.primary)
    arguments = layout.arguments(task.signature, baseline.scalars)
    jobs = [ProfileJob(b.path, arguments, task.primary.name, layout.extent, detailed) for b in binaries]
    profiles = device.profile(jobs)
    return [
        with_resources(profile, binary.compilation.resources, device.spec.architecture)
        for profile, binary in zip(profiles, binaries, strict=True)
    ]


def with_resources(profile: Profile, resources: Sequence[Resources], architecture: str) -> Profile:
    """Add registers, shared memory, spills and occupancy from ptxas to each kernel."""
    kernels = []
    for kernel in profile.kernels:
        known = _resources_of(kernel, resources)
        extra = _metrics(kernel, known, architecture) if known else ()
        kernels.append(kernel.model_copy(update={"metrics": kernel.metrics + extra}))
    return profile.model_copy(update={"kernels": tuple(kernels)})


def _resources_of(kernel: KernelProfile, resources: Sequence[Resources]) -> Resources | None:
    """ptxas names kernels as the linker does; a launch has the name a person reads."""
    plain = source_name(kernel.name)
    matches = [r for r in resources if f"{len(plain)}{plain}" in r.kernel or r.kernel == plain]
    return matches[0] if len(matches) == 1 else None


def _metrics(kernel: KernelProfile, known: Resources, architecture: str) -> tuple[Metric, ...]:
    dynamic = kernel.metric("Dynamic Shared Memory Per Block")
    shared = known.shared_bytes + (int(dynamic.value) if dynamic and isinstance(dynamic.value, float) else 0)
    threads = kernel.block[0] * kernel.block[1] * kernel.block[2]
    occupancy = occupancy_percent(architecture, threads, known.registers, shared)
    values = {
        "ptxas Registers": ("register/thread", known.registers),
        "ptxas Static Shared Memory": ("byte/block", known.shared_bytes),
        "ptxas Stack": ("byte/thread", known.stack_bytes),
        "ptxas Spill Stores": ("byte/thread", known.spill_store_bytes),
        "ptxas Spill Loads": ("byte/thread", known.spill_load_bytes),
        "ptxas Theoretical Occupancy": ("%", occupancy),
    }
    return tuple(
        Metric(name=name, unit=unit, value=float(value), tier="ptxas")
        for name, (unit, value) in values.items()
    )
