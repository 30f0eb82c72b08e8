"""GPU specifications from specs.toml: sizes and peak rates by name."""

import tomllib
from functools import cache
from pathlib import Path

from kernelblaster.errors import KernelBlasterError
from kernelblaster.records.record import Record


class GpuSpec(Record):
    """A GPU's data: SM count, DRAM bandwidth (GB/s), L2 size (MB), peak arithmetic rates (dense, TFLOPS; a
    multiply-add is two). No kernel exceeds the rates, so bytes and operations divided by them are lower
    bounds on time. `title` is the driver's name for it, `source` where the numbers come from.
    `resident_clusters` are pairs: blocks of a thread-block cluster, and how many such clusters run at once
    with one block on an SM (cudaOccupancyMaxActiveClusters); empty where nobody has asked yet."""

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
        """How many clusters of so many blocks run at once, with one block on an SM; where that is not known,
        as many as there are SMs for."""
        return dict(self.resident_clusters).get(blocks, max(1, self.multiprocessors // blocks))

    @property
    def split_tflops(self) -> float:
        """Peak rate of matrix products with float32 precision: on FP32 units, or as three half-precision
        products on tensor cores."""
        return max(self.fp32_tflops, self.fp16_tflops / 3)

    def floor_us(self, bytes_: int, operations: int, tflops: float) -> float:
        """Lower bound on a kernel's time in microseconds: the larger of its memory time and of its arithmetic
        time at `tflops`."""
        return max(bytes_ / (self.dram_gb_s * 1e3), operations / (tflops * 1e6))

    def impossible_us(self, certain_bytes: int) -> float:
        """Microseconds that no run with a cold cache can beat if it must read `certain_bytes`; as much as the
        L2 cache holds is deducted, and a quarter more."""
        return max(0.0, certain_bytes - self.l2_mb * 1.25e6) / (self.dram_gb_s * 1e3)


@cache
def gpu_specs() -> dict[str, GpuSpec]:
    """The specifications of specs.toml by short name (like "h200")."""
    data = tomllib.loads((Path(__file__).parent / "specs.toml").read_text())
    return {name: GpuSpec(name=name, **fields) for name, fields in data.items()}


def gpu_named(name: str) -> GpuSpec:
    """The specification with this short name (like "h200"), in upper or lower case. Raises
    KernelBlasterError, which lists the known ones."""
    spec = gpu_specs().get(name.lower())
    if spec is None:
        raise KernelBlasterError(f"GPU {name} is not one of {', '.join(gpu_specs())}.")
    return spec


def spec_named(title: str) -> GpuSpec | None:
    """The specification for a GPU name that the driver reports (like "NVIDIA H200"); of several whose title
    matches, the longest. None if it is not listed."""
    matches = [s for s in gpu_specs().values() if title.startswith(s.title) or s.title.startswith(title)]
    return max(matches, key=lambda s: len(s.title), default=None)
