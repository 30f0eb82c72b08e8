"""Profiles candidates: kernels in launch order, with hardware counters where the machine permits them, and
always with ptxas' report on each kernel."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kernelblaster.devices.device import Device, ProfileJob
from kernelblaster.devices.occupancy import occupancy_percent
from kernelblaster.judge.baseline import Baseline
from kernelblaster.judge.compile import Binary
from kernelblaster.judge.layout import Layout, lay_out, slot_bytes
from kernelblaster.records import KernelProfile, Metric, Profile, Resources, Task, Workload
from kernelblaster.records.kernel_name import source_name
from kernelblaster.records.profile import Depth
from kernelblaster.tasks.values import fill

TOGETHER_BYTES = 4 << 30  # of the arena, for tasks that are profiled under one start


@dataclass(frozen=True)
class Profiled:
    """A request to profile compiled candidates of one task: one profile for each of `binaries`. `baseline`
    supplies the values for inputs and parameters."""

    task: Task
    baseline: Baseline
    binaries: Sequence[Binary]

    @property
    def slots(self) -> list[int]:
        """Bytes of memory that each tensor of the task needs at the primary workload (the sizes that are
        timed), in the signature's order."""
        return slot_bytes(self.task.signature, [self.task.primary])


def filled_layout(
    device: Device, task: Task, baseline: Baseline, workload: Workload, first: int = 0
) -> Layout:
    """Places the tensors of `workload` in the arena of `device` (the memory that candidates work on),
    beginning with slot number `first`, and fills inputs and parameters with values like those of the task's
    file, which `baseline` supplies. Returns where the tensors lie. The same arguments give the same addresses
    and values."""
    baseline = baseline.at(workload)
    layout = lay_out(device.arena(), task.signature, workload, random.Random(0), first)
    for position, tensor in enumerate(task.signature.input_tensors):
        fill(layout.view(tensor), baseline.pools[position], "written", workload, position)
    for tensor, original in zip(task.signature.parameters, baseline.parameters, strict=True):
        layout.view(tensor).copy_(original)
    return layout


def profile_candidates(
    device: Device, wanted: Sequence[Profiled], *, depth: Depth = "detailed"
) -> Iterator[list[Profile]]:
    """Yields for each request in `wanted` a list with one profile per binary, at the primary workload (the
    sizes that are timed). Candidates are run on `device`. Requests whose tensors take at most 4 GiB together
    (TOGETHER_BYTES) share one start of the profiler. `depth` says how much is collected: "quick" (what
    performance states are named from), "usual" (also the profiler's advice) or "detailed" (also counts by
    instruction)."""
    for group in _together(wanted):
        device.arena([size for one in group for size in one.slots])
        jobs: list[ProfileJob] = []
        position = 0
        for one in group:
            primary = one.task.primary
            layout = filled_layout(device, one.task, one.baseline, primary, position)
            arguments = layout.arguments(one.task.signature, one.baseline.scalars)
            jobs += [ProfileJob(b.path, arguments, primary.name, depth) for b in one.binaries]
            position += len(one.slots)
        profiles = iter(device.profile(jobs))
        for one in group:
            yield [
                with_resources(next(profiles), binary.compilation.resources, device.spec.architecture)
                for binary in one.binaries
            ]


def _together(wanted: Sequence[Profiled]) -> Iterator[list[Profiled]]:
    """Yields the requests in groups, in order, whose tensors take at most TOGETHER_BYTES together (a single
    request may take more)."""
    group: list[Profiled] = []
    for one in wanted:
        if group and sum(sum(o.slots) for o in (*group, one)) > TOGETHER_BYTES:
            yield group
            group = []
        group.append(one)
    if group:
        yield group


def with_resources(profile: Profile, resources: Sequence[Resources], architecture: str) -> Profile:
    """Returns a copy of the profile with what ptxas reports (`resources`) added to each kernel: registers,
    shared memory, spills and theoretical occupancy. Kernels without a report stay as they are. `architecture`
    is the GPU's, whose limits determine occupancy."""
    kernels = []
    for kernel in profile.kernels:
        known = _resources_of(kernel, resources)
        extra = _metrics(kernel, known, architecture) if known else ()
        kernels.append(kernel.model_copy(update={"metrics": kernel.metrics + extra}))
    return profile.model_copy(update={"kernels": tuple(kernels)})


def _resources_of(kernel: KernelProfile, resources: Sequence[Resources]) -> Resources | None:
    """ptxas' report on the kernel of a profile, matched by name: reports have mangled names, profiles
    readable ones. None if there is none, or several match (templates)."""
    plain = source_name(kernel.name)
    matches = [r for r in resources if f"{len(plain)}{plain}" in r.kernel or r.kernel == plain]
    return matches[0] if len(matches) == 1 else None


def _metrics(kernel: KernelProfile, known: Resources, architecture: str) -> tuple[Metric, ...]:
    """Registers, shared memory and the like from ptxas' report on a kernel, and the theoretical occupancy
    that follows from them and the launch's block size, as metrics of tier "ptxas"."""
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
