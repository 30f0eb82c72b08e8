"""Modelled timing: where there is no GPU, a model estimates how long each kernel takes at the primary
workload, the sizes that are timed. Its results are marked as modelled wherever they are shown."""

import random
import re
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from kernelblaster.devices.device import Argument, Device, ProfileJob
from kernelblaster.devices.device_code import PTX
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

# Factor by which a modelled speedup may be too high or too low: 90% of the measured variants are within it
# (results/model.md).
MODEL_ERROR = 1.5
LARGEST_GRID = (2**31 - 1, 65535, 65535)
READS_CLOCK = re.compile(r"%(clock(_hi|64)?|globaltimer(_lo|_hi)?)\b")
AGAIN_BY_CLOCK = 32  # what is slow one time in five is missed once in a thousand
AGREE = 1.2  # ratio of times that other blocks may differ by
KEPT_BYTES = 64 << 20  # of drawn values, from one candidate of a task to the next


class ModelledTimer:
    """Models how long candidates of one task take on a GPU, by running them on the emulated `device`. The
    times are those at the primary workload, the sizes at which a real GPU would be timed. `baseline` is what
    candidates are compared with (PyTorch, or the user's kernel); it supplies the values for inputs and
    parameters too. Only the beginning of each tensor is filled with values, so large workloads need little
    memory."""

    def __init__(self, device: Device, task: Task, baseline: Baseline) -> None:
        self._device = device
        self._task = task
        self._baseline = baseline
        self._kept: dict[str, torch.Tensor] = {}

    def forget_values(self) -> None:
        """Free the input values that are kept from one candidate of the task to the next (at most 64 MiB,
        KEPT_BYTES); they are drawn again when needed."""
        self._kept.clear()

    def profiles(self, binaries: Sequence[Binary], limit_s: float | None = None) -> list[Profile]:
        """Returns one modelled profile for each compiled candidate in `binaries`, at the primary workload
        (the sizes that are timed), with ptxas' report on each kernel (registers, shared memory, spills).
        Modelling one candidate may take `limit_s` seconds; None: the emulator's usual limit of a call, 60 s
        unless set otherwise. Raises CandidateDied, CandidateHung or NotEmulated."""
        resources = [b.compilation.resources for b in binaries]
        jobs = [replace(job, model_limit_s=limit_s) for job in self._jobs([b.path for b in binaries])]
        profiles = self._device.profile(jobs)
        architecture = self._device.spec.architecture
        return [with_resources(p, r, architecture) for p, r in zip(profiles, resources, strict=True)]

    def slowest(self, binary: Binary, profile: Profile, rng: random.Random) -> Profile:
        """Models the time of the compiled candidate `binary` again, to see whether the time in its modelled
        `profile` is confirmed. Returns the longest new profile if it takes more than 1.2 times (AGREE) as
        long as `profile`, otherwise `profile`. One new profile is made; 32 (AGAIN_BY_CLOCK) if the device
        code reads a clock, by which it might do less work at some times. For each, `rng` draws other blocks
        of the launches, other values of clocks and of uninitialized memory. Raises CandidateDied,
        CandidateHung or NotEmulated."""
        text = (binary.path.parent / PTX).read_text()
        times = AGAIN_BY_CLOCK if READS_CLOCK.search(text) else 1
        jobs = [replace(job, shift=rng.random()) for job in self._jobs([binary.path] * times)]
        others = self._device.profile(jobs)
        architecture = self._device.spec.architecture
        found = [with_resources(one, binary.compilation.resources, architecture) for one in others]
        longest = max(found, key=total_us)
        return longest if total_us(longest) > AGREE * total_us(profile) else profile

    def time(self, profile: Profile, floor: Floor) -> Timing | Rejected | RuntimeFailed:
        """Returns the timing of a candidate that has this modelled profile; or an outcome, if the profile
        shows that the candidate must fail. The outcome is Rejected if the candidate launches nothing, or if
        its time is too short for the GPU to read the bytes that every kernel must read
        (`floor.certain_bytes`). It is RuntimeFailed if a grid is larger than CUDA allows."""
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
        """Modelled time in us of what candidates are compared with, at the primary workload: the user's
        original kernel, or eager PyTorch."""
        if isinstance(self._baseline, KernelBaseline):
            return total_us(self._device.profile(self._jobs([self._baseline.binary]))[0])
        from kernelblaster.judge.eager_model import eager_us

        return eager_us(self._task, self._task.primary, self._device.spec)

    def _jobs(self, paths: Sequence[Any]) -> list[ProfileJob]:
        """A profile job for each of these paths of shared objects, at the primary workload (the sizes that
        are timed)."""
        layout = self._layout()
        arguments: tuple[Argument, ...] = layout.arguments(self._task.signature, self._scalars)
        return [ProfileJob(path, arguments, self._task.primary.name) for path in paths]

    def _layout(self) -> Layout:
        """The primary workload (the sizes that are timed) in sparse memory: the first REPEATED_BYTES of every
        input and parameter hold values like those of the task's file, the rest is empty."""
        signature, workload = self._task.signature, self._task.primary
        arena = self._device.arena(slot_bytes(signature, [workload]))
        layout = lay_out(arena, signature, workload, random.Random(0))
        pools = zip(signature.read_tensors, self._pools, strict=True)
        for position, (tensor, pool) in enumerate(pools):
            # From the first whole page on, which is what is shown over and over.
            beginning = layout.raw(tensor)[: REPEATED_BYTES + PAGE].view(getattr(torch, tensor.dtype))
            if tensor.name in self._kept:
                beginning.copy_(self._kept[tensor.name])
                continue
            fill(beginning, pool, "written", workload, position)
            if beginning.nbytes + sum(kept.nbytes for kept in self._kept.values()) <= KEPT_BYTES:
                self._kept[tensor.name] = beginning.clone()
        return layout

    @cached_property
    def _pools(self) -> list[ValuePool]:
        """For each input and parameter, the values to fill it with. Triangular zero patterns are dropped:
        which elements are zero does not change the time."""
        small = small_workload(self._task)
        baseline = self._baseline.at(small)
        parameters = zip(baseline.parameters, self._task.signature.parameters, strict=True)
        drawn = [pool_of(value, tensor, small) for value, tensor in parameters]
        return [replace(pool, triangle=None) for pool in (*baseline.pools, *drawn)]

    @cached_property
    def _scalars(self) -> list[Any]:
        return primary_scalars(self._task)


def primary_scalars(task: Task) -> list[Any]:
    """Returns the scalar arguments of a task at its primary workload (the sizes that are timed), without
    allocating its tensors; empty for a CUDA task."""
    if task.kind == "cuda":
        return []
    file = ModuleFile(task.source, task.path)
    with FakeTensorMode(allow_non_fake_inputs=True):
        return [value for value in file.inputs() if not isinstance(value, torch.Tensor)]


def total_us(profile: Profile) -> float:
    """Returns the time in us of the call in `profile`: the sum of its kernels' durations. Raises
    KernelBlasterError if the duration of some kernel is not known."""
    durations = [kernel.duration_us for kernel in profile.kernels]
    if None in durations:
        raise KernelBlasterError(f"the profile of {profile.device} has kernels without a duration.")
    return sum(d for d in durations if d is not None)


def modelled_speedup(baseline_us: float, candidate_us: float) -> Speedup:
    """Returns the speedup from two modelled times in us, baseline over candidate, with an interval from 1/1.5
    to 1.5 times the ratio (MODEL_ERROR). The interval has no confidence level, because it is the model's
    error and not a statistic."""
    ratio = baseline_us / candidate_us
    return Speedup(estimate=ratio, low=ratio / MODEL_ERROR, high=ratio * MODEL_ERROR, confidence=None)
