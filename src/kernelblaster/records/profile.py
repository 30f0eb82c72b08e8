"""Profiles: metrics of a candidate's kernels in launch order. Each metric has a tier, which names the method
by which it was obtained: ncu (Nsight Compute), activity (timing of each launch), ptxas, emulated (counted by
the emulator) or modelled."""

from typing import Literal

from kernelblaster.records.record import Record

Tier = Literal["ncu", "activity", "ptxas", "emulated", "modelled"]
Depth = Literal["quick", "usual", "detailed"]
"""How much is counted: what states are named from; and the profiler's sections with its advice; and what
is counted by instruction, which can take long."""
MOST_KERNELS = 256  # that are kept of a call
MICROSECONDS = {"ns": 1e-3, "us": 1.0, "ms": 1e3, "s": 1e6}


class Metric(Record):
    """One metric of a kernel. `name` is the name that Nsight Compute (NCU) has for it; metrics that NCU lacks
    have names of their own. `section` is NCU's section with it, empty if none. `tier` is the method by which
    it was obtained. `value` is in `unit`; it is text where the profiler reports text."""

    name: str
    unit: str
    value: float | str
    tier: Tier
    section: str = ""


class ProfilerAdvice(Record):
    """The advice (`message`) that a `rule` of Nsight Compute gives, in its own words; `section` is the
    section of its report. `estimated_speedup_percent` is the speedup that the rule estimates in percent, None
    if it estimates none."""

    rule: str
    section: str
    message: str
    estimated_speedup_percent: float | None = None


class KernelProfile(Record):
    """The metrics of one kernel launch, with grid and block as launched. `name` is as the profiler reports
    it, `advice` is what the profiler recommends."""

    name: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    metrics: tuple[Metric, ...]
    advice: tuple[ProfilerAdvice, ...] = ()

    def metric(self, name: str) -> Metric | None:
        """The kernel's metric with this name (as Nsight Compute calls it); None if it was not collected."""
        return next((m for m in self.metrics if m.name == name), None)

    @property
    def duration_us(self) -> float | None:
        """The metric `Duration` in microseconds; None if the profile has no such metric."""
        metric = self.metric("Duration")
        if metric is None or not isinstance(metric.value, float) or metric.unit not in MICROSECONDS:
            return None
        return metric.value * MICROSECONDS[metric.unit]


class Profile(Record):
    """The kernels of one call of a candidate in launch order. `device` and `workload` are names. `tier` is
    the method: measured by Nsight Compute (ncu) or by timing each launch (activity), reported by ptxas,
    counted by the emulator, or modelled."""

    device: str
    tier: Tier
    workload: str
    kernels: tuple[KernelProfile, ...]

    def only(self, *names: str) -> "Profile":
        """Returns a copy that keeps only the metrics with these names, and no profiler advice."""
        kernels = (
            k.model_copy(update={"metrics": tuple(m for m in k.metrics if m.name in names), "advice": ()})
            for k in self.kernels
        )
        return self.model_copy(update={"kernels": tuple(kernels)})

    def shortened(self) -> "Profile":
        """Returns a copy with at most 257 kernels: the 256 longest ones (MOST_KERNELS) in launch order, then
        one entry for all others with their total duration. Returns the profile itself if it has no more than
        256."""
        if len(self.kernels) <= MOST_KERNELS:
            return self
        order = sorted(range(len(self.kernels)), key=lambda n: -(self.kernels[n].duration_us or 0.0))
        kept = [self.kernels[n] for n in sorted(order[:MOST_KERNELS])]
        rest = [self.kernels[n] for n in order[MOST_KERNELS:]]
        total_us = sum(kernel.duration_us or 0.0 for kernel in rest)
        metric = Metric(name="Duration", unit="us", value=total_us, tier=self.tier)
        name = f"[{len(rest)} further launches]"
        kept.append(KernelProfile(name=name, grid=(1, 1, 1), block=(1, 1, 1), metrics=(metric,)))
        return self.model_copy(update={"kernels": tuple(kept)})
