"""How fast would it be? Where there is no clock, a model of the GPU says how long each kernel would take
on the primary workload. What it says is an estimate, and is called modelled wherever it is shown."""

import random
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from kernelblaster.devices.device import Argument, Device, ProfileJob
from kernelblaster.devices.emulated import PAGE, REPEATED_BYTES
from kernelblaster.errors import KernelBlasterError
from kernelblaster.judge.baseline import Baseline, KernelBaseline
from kernelblaster.judge.compile import Binary
from kernelblaster.judge.emulate import small_workload
from kernelblaster.judge.layout import Layout, lay_out, slot_bytes
from kernelblaster.judge.profile import with_resources
from kernelblaster.judge.timing import floor_us
from kernelblaster.records import Floor, Profile, Rejected, RuntimeFailed, Task, Timing
from kernelblaster.records.outcome import Speedup
from kernelblaster.tasks.module_file import ModuleFile
from kernelblaster.tasks.values import ValuePool, fill, pool_of

# By what factor a modelled ratio may be off, either way: nine in ten of the variants that were measured lie
# within (results/model.md).
MODEL_ERROR = 1.5
LARGEST_GRID = (2**31 - 1, 65535, 65535)


class ModelledTimer:
    """The modelled times of one task's candidates. `baseline` is the one that verification uses, at the
    small workload; the primary one is laid out here, and only its beginnings are filled."""

    def __init__(self, device: Device, task: Task, baseline: Baseline) -> None:
        self._device = device
        self._task = task
        self._baseline = baseline

    def profiles(self, binaries: Sequence[Binary]) -> list[Profile]:
        """One modelled profile for each binary, on the primary workload."""
        resources = [b.compilation.resources for b in binaries]
        profiles = self._device.profile(self._jobs([b.path for b in binaries]))
        architecture = self._device.spec.architecture
        return [with_resources(p, r, architecture) for p, r in zip(profiles, resources, strict=True)]

    def time(self, profile: Profile, floor: Floor) -> Timing | Rejected | RuntimeFailed:
        """What a candidate's modelled profile means beside the baseline's modelled time."""
        start = time.perf_counter()
        spec = self._device.spec
        if not profile.kernels:
            return Rejected(reason="no-work", evidence="a call at the primary workload launches nothing")
        for kernel in profile.kernels:
            if any(extent > most for extent, most in zip(kernel.grid, LARGEST_GRID, strict=True)):
                return RuntimeFailed(
                    reason=f"{kernel.name}: invalid configuration",
                    evidence=f"primary workload: a grid of {kernel.grid}; the largest is {LARGEST_GRID}",
                )
        candidate_us = total_us(profile)
        least_us = spec.impossible_us(floor.certain_bytes)
        if candidate_us * MODEL_ERROR < least_us:
            return Rejected(
                reason="below-the-floor",
                evidence=f"{candidate_us:.1f} us (modelled), but moving {floor.certain_bytes / 1e6:.0f} MB "
                f"takes {least_us:.1f} us on {spec.title} at its peak",
            )
        return Timing(
            baseline=self._baseline.title,
            baseline_us=self.baseline_us,
            candidate_us=candidate_us,
            speedup=modelled_speedup(self.baseline_us, candidate_us),
            samples=1,
            candidate_wall_us=None,
            candidate_activity_us=None,
            floor_us=floor_us(spec, self._task, floor),
            modelled=True,
            seconds=time.perf_counter() - start,
        )

    @cached_property
    def baseline_us(self) -> float:
        """The original kernel's modelled time, or PyTorch's."""
        if isinstance(self._baseline, KernelBaseline):
            return total_us(self._device.profile(self._jobs([self._baseline.binary]))[0])
        from kernelblaster.judge.eager_model import eager_us

        return eager_us(self._task, self._task.primary, self._device.spec)

    def _jobs(self, paths: Sequence[Any]) -> list[ProfileJob]:
        layout = self._layout()
        arguments: tuple[Argument, ...] = layout.arguments(self._task.signature, self._scalars)
        return [ProfileJob(path, arguments, self._task.primary.name) for path in paths]

    def _layout(self) -> Layout:
        """The primary workload in a sparse arena: of every tensor that is read, the first REPEATED_BYTES
        hold the task's own kind of values."""
        signature, workload = self._task.signature, self._task.primary
        arena = self._device.arena(slot_bytes(signature, [workload]))
        layout = lay_out(arena, signature, workload, random.Random(0))
        pools = zip(signature.read_tensors, self._pools, strict=True)
        for position, (tensor, pool) in enumerate(pools):
            # From the first whole page on, which is what is shown over and over.
            beginning = layout.raw(tensor)[: REPEATED_BYTES + PAGE].view(getattr(torch, tensor.dtype))
            fill(beginning, pool, "written", workload, position)
        return layout

    @cached_property
    def _pools(self) -> list[ValuePool]:
        """Values for inputs and parameters; where in a tensor its zeros lie does not matter for time."""
        small = small_workload(self._task)
        baseline = self._baseline.at(small)
        parameters = zip(baseline.parameters, self._task.signature.parameters, strict=True)
        drawn = [pool_of(value, tensor, small) for value, tensor in parameters]
        return [replace(pool, triangle=None) for pool in (*baseline.pools, *drawn)]

    @cached_property
    def _scalars(self) -> list[Any]:
        """The numbers among the inputs at the primary workload, without making its tensors."""
        if self._task.kind == "cuda":
            return []
        file = ModuleFile(self._task.source, self._task.path)
        with FakeTensorMode(allow_non_fake_inputs=True):
            return [value for value in file.inputs() if not isinstance(value, torch.Tensor)]


def total_us(profile: Profile) -> float:
    """The kernels of a call one after the other."""
    durations = [kernel.duration_us for kernel in profile.kernels]
    if None in durations:
        raise KernelBlasterError(f"the profile of {profile.device} has kernels without a duration.")
    return sum(d for d in durations if d is not None)


def modelled_speedup(baseline_us: float, candidate_us: float) -> Speedup:
    """The ratio, and what it may be if the model is off by its stated error."""
    ratio = baseline_us / candidate_us
    return Speedup(estimate=ratio, low=ratio / MODEL_ERROR, high=ratio * MODEL_ERROR, confidence=None)
