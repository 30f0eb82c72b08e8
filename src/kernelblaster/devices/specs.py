"""GPU specifications from specs.toml (SM count, bandwidth, peak rates) by name, and the lower bounds on time
that follow from them."""

import tomllib
from functools import cache
from pathlib import Path

from kernelblaster.errors import KernelBlasterError
from kernelblaster.records.record import Record


class GpuSpec(Record):
    """A GPU's data: its number of SMs, its DRAM bandwidth in GB/s (`dram_gb_s`), the size of its L2 cache in
    MB (`l2_mb`), and its peak arithmetic rates in TFLOPS, by the type of the operands (dense; a multiply-add
    counts as two operations). No kernel exceeds the rates, so bytes and operations divided by them are lower
    bounds on time. `name` is short, like "h200"; `title` is the name that the driver reports, `architecture`
    is like "sm_90a". `source` says where the numbers come from.

    `resident_clusters` are pairs: the number of blocks in a thread-block cluster, and how many such clusters
    run at once with one block on an SM (cudaOccupancyMaxActiveClusters). Empty where that was not measured.
    """

    name: str
    title: str
    architecture: str
    multiprocessors: int
    dram_gb_s: float
    l2_mb: float
    fp32_tflops: float
    tf32_tflops: float
    fp16_tflops: float
    source: str
    resident_clusters: tuple[tuple[int, int], ...] = ()

    def clusters(self, blocks: int) -> int:
        """How many thread-block clusters of `blocks` blocks each run on the GPU at once, with one block on an
        SM. Where that was not measured, it is the number of SMs divided by `blocks`, at least 1."""
        return dict(self.resident_clusters).get(blocks, max(1, self.multiprocessors // blocks))

    @property
    def split_tflops(self) -> float:
        """Peak rate in TFLOPS of matrix products with float32 precision, by the faster of two ways: on FP32
        units, or on tensor cores with each product made of three half-precision ones."""
        return max(self.fp32_tflops, self.fp16_tflops / 3)

    def floor_us(self, bytes_: int, operations: int, tflops: float) -> float:
        """Returns the roofline floor, a lower bound in us on the time of a kernel that moves `bytes_` bytes
        and does `operations` floating-point operations: the larger of the time for the bytes at full DRAM
        bandwidth and the time for the operations at `tflops`."""
        return max(bytes_ / (self.dram_gb_s * 1e3), operations / (tflops * 1e6))

    def impossible_us(self, certain_bytes: int) -> float:
        """A lower bound in us on the time of any run that must read `certain_bytes` from memory, even if part
        of them is still in the L2 cache. It is the time for these bytes at full DRAM bandwidth, after 1.25
        times the L2 size is taken off them; 0 if nothing is left."""
        return max(0.0, certain_bytes - self.l2_mb * 1.25e6) / (self.dram_gb_s * 1e3)


@cache
def gpu_specs() -> dict[str, GpuSpec]:
    """All GPUs that specs.toml describes, by short name (like "h200")."""
    data = tomllib.loads((Path(__file__).parent / "specs.toml").read_text())
    return {name: GpuSpec(name=name, **fields) for name, fields in data.items()}


def gpu_named(name: str) -> GpuSpec:
    """The specification with this short name (like "h200"), in upper or lower case. Raises KernelBlasterError
    for an unknown name; its message lists the known ones."""
    spec = gpu_specs().get(name.lower())
    if spec is None:
        raise KernelBlasterError(f"GPU {name} is not one of {', '.join(gpu_specs())}.")
    return spec


def spec_named(title: str) -> GpuSpec | None:
    """The specification for a GPU name that the driver reports (like "NVIDIA H200"). The name and a
    specification's title match if one of them begins with all words of the other; of several matches, the one
    with the longest title is returned. None if there is no match."""

    def matches(listed: str) -> bool:
        return all(own == other for own, other in zip(title.split(), listed.split(), strict=False))

    found = [spec for spec in gpu_specs().values() if matches(spec.title)]
    return max(found, key=lambda spec: len(spec.title), default=None)
