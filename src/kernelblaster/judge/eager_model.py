"""Models the time of one forward call of a task's module in eager PyTorch, without a GPU. Modelled times of
candidates are compared with this modelled time; that proves no speedup.

Two times advance side by side, the host's and the GPU's. The host issues operators one by one. The GPU starts
a kernel when the host has issued it and the previous one has ended. A kernel takes its memory time, plus its
arithmetic time, plus the gap to the next. Kernels reach only a fraction of the GPU's peak rates;
`eager_rates.toml` has it for each family of kernels, fitted to measured times by `benchmarks/fit_eager.py`.
"""

import tomllib
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from kernelblaster.devices.cuda import FLUSH_BYTES
from kernelblaster.devices.specs import GpuSpec
from kernelblaster.judge.eager_launches import EagerLaunch, Unit
from kernelblaster.judge.eager_trace import Step, trace
from kernelblaster.records import Task, Workload
from kernelblaster.records.record import Record

BLOCKS_PER_SM = 2
READ_AGAIN = 1.5  # factor on bytes where rows are read twice and do not fit in the L2 cache


class EagerRates(Record):
    """Parameters of the timing model of eager PyTorch, fitted to measurements. `bandwidth` and `arithmetic`
    have, for each family of kernels by name, the fraction (0 to 1) of the GPU's peak rate that they reach.
    Three times in us do not depend on the GPU: `launch_us` is the gap between two kernels; `host_us` is what
    the host takes to issue an operator; `view_us` is the same for an operator that only makes a view."""

    bandwidth: dict[str, float]
    arithmetic: dict[str, float]
    launch_us: float
    host_us: float
    view_us: float


@cache
def rates() -> EagerRates:
    """The fitted parameters of the timing model of eager PyTorch, read once from eager_rates.toml."""
    return EagerRates(**tomllib.loads((Path(__file__).parent / "eager_rates.toml").read_text()))


def eager_us(task: Task, workload: Workload, spec: GpuSpec) -> float:
    """Modelled time in us of one forward call of the task's module at the sizes of `workload` in eager
    PyTorch on the GPU `spec`, with a cold cache.

    Raises BadTask for a CUDA-source task, and for a module that cannot be traced on tensors without
    values."""
    return steps_us(trace(task, workload), spec, rates())


def steps_us(steps: Iterable[Step], spec: GpuSpec, rates: EagerRates) -> float:
    """Modelled time in us of one forward call on the GPU `spec`. `steps` has the call's kernels in order, and
    None for each operator that only makes a view. The time begins at the end of the cache flush that precedes
    the call, and ends with the last kernel. The host issues kernels while the flush is still running, so the
    first ones may already wait in the GPU's queue. `rates` are the model's fitted parameters."""
    host_us = -2 * FLUSH_BYTES / (spec.dram_gb_s * 1e3)
    gpu_us = 0.0
    for step in steps:
        if step is None:
            host_us += rates.view_us
        else:
            host_us += rates.host_us
            gpu_us = max(gpu_us, host_us) + kernel_us(step, spec, rates)
    return gpu_us


def kernel_us(launch: EagerLaunch, spec: GpuSpec, rates: EagerRates) -> float:
    """Modelled time in us of one kernel of eager PyTorch (`launch`) on the GPU `spec`, with the gap to the
    next; `rates` are the model's fitted parameters. Memory and arithmetic time are added: library kernels
    overlap them only in part."""
    busy = min(1.0, launch.blocks / spec.multiprocessors) if launch.blocks else 1.0
    share = rates.bandwidth.get(launch.family, rates.bandwidth["pointwise"]) * busy
    work_us = launch.bytes / (share * spec.dram_gb_s * 1e3)
    rows_in_flight = spec.multiprocessors * BLOCKS_PER_SM
    if launch.row_bytes * rows_in_flight > spec.l2_mb * 1e6:
        work_us *= READ_AGAIN
    if launch.operations:
        rate = peak_tflops(spec, launch.unit) * rates.arithmetic[launch.family] * busy
        work_us += launch.operations / (rate * 1e6)
    return max(work_us, rates.launch_us * (launch.steps - 1)) + rates.launch_us


def peak_tflops(spec: GpuSpec, unit: Unit) -> float:
    """Returns the peak rate in TFLOPS of a unit ("fp16", "tf32", "fp32", "fp64") of the GPU `spec`. fp64 is
    taken as half of fp32, as on data-centre GPUs."""
    by_unit = {"fp16": spec.fp16_tflops, "tf32": spec.tf32_tflops, "fp32": spec.fp32_tflops}
    return by_unit[unit] if unit != "fp64" else spec.fp32_tflops / 2
