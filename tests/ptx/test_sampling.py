"""What the machine records when it runs some blocks of a grid for a GPU model."""

import struct
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch

from kernelblaster.ptx.machine import Machine

SOURCE = """
extern "C" __global__ void copy(float* out, const float* x) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = x[i];
}
extern "C" __global__ void strided(float* out, const float* x) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = x[blockIdx.x * blockDim.x * 32 + threadIdx.x * 32];
}
extern "C" __global__ void twice(float* out, const float* x, int n) {
  float sum = 0, product = 1;
  for (int i = threadIdx.x; i < n; i += blockDim.x) sum += x[i];
  __syncthreads();
  for (int i = threadIdx.x; i < n; i += blockDim.x) product *= x[i] + sum;
  out[blockIdx.x * blockDim.x + threadIdx.x] = product;
}
extern "C" __global__ void chain(float* out, const int* x) {
  int at = 0;
  for (int k = 0; k < 8; ++k) at = x[at];
  out[blockIdx.x * blockDim.x + threadIdx.x] = at;
}
extern "C" __global__ void independent(float* out, const int* x) {
  int sum = 0;
#pragma unroll
  for (int k = 0; k < 8; ++k) sum += x[k * 64];
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
__device__ __noinline__ float polynomial(float x, int terms) {
  float sum = 0;
  for (int k = 0; k < terms; ++k) sum = sum * x + 1.0f;
  return sum;
}
extern "C" __global__ void calls(float* out, const float* x, int terms) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = polynomial(x[i], terms);
}
extern "C" __global__ void one_place(float* out) { atomicAdd(out, 1.0f); }
"""
L1, L2, DRAM = 30.0, 200.0, 900.0
THREADS = 64


@pytest.fixture(scope="module")
def text(compiler: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder: Path = tmp_path_factory.mktemp("sampling")
    (folder / "k.cu").write_text(SOURCE)
    command = [compiler, "-O3", "-arch=compute_80", "-ptx", "k.cu", "-o", "k.ptx"]
    subprocess.run(command, cwd=folder, check=True)
    return (folder / "k.ptx").read_text()


def aligned(count: int) -> torch.Tensor:
    """Zeros that begin with a cache line, as device memory does."""
    room = torch.zeros(count + 32)
    return room[-(room.data_ptr() // 4) % 32 :][:count]


def costs(
    text: str, kernel: str, blocks: int, *extra: int, l1_bytes: int = 16 << 10, most_blocks: int = 8
) -> dict[str, Any]:
    """Of `blocks` blocks, what at most `most_blocks` of them cost."""
    out = aligned(blocks * THREADS)
    x = aligned(blocks * THREADS * 32)
    with Machine() as machine:
        machine.allow(out.data_ptr(), out.numel() * 4, "out")
        machine.allow(x.data_ptr(), x.numel() * 4, "x")
        machine.sample_for([l1_bytes, 50e6, 1000, most_blocks, 1e6, 0, 0, L1, L2, DRAM, 25, 20])
        pointers = [out.data_ptr()] if kernel == "one_place" else [out.data_ptr(), x.data_ptr()]
        arguments = [struct.pack("Q", p) for p in pointers] + [struct.pack("i", e) for e in extra]
        report = machine.load(text).launch(kernel, (blocks, 1, 1), (THREADS, 1, 1), arguments)
    assert report.costs is not None and not report.findings
    return report.costs


def traffic(found: dict[str, Any], name: str) -> dict[str, int]:
    return next(t for t in found["traffic"] if t["name"] == name)


def test_only_some_blocks_are_run_and_they_are_spread(text: str) -> None:
    found = costs(text, "copy", 1000)
    assert found["sampled"] == 8
    assert costs(text, "copy", 5)["sampled"] == 5
    assert traffic(found, "x")["first"] == 8 * THREADS * 4 // 32
    assert traffic(found, "out")["stored"] == 8 * THREADS * 4 // 32


def test_strided_loads_touch_more_lines_and_sectors(text: str) -> None:
    near, far = costs(text, "copy", 64), costs(text, "strided", 64)
    assert traffic(far, "x")["first"] == 8 * traffic(near, "x")["first"]
    assert far["missed_lines"] == 32 * near["missed_lines"]


def test_what_fits_the_cache_is_found_there_again(text: str) -> None:
    fits = costs(text, "twice", 8, 2048)
    assert fits["l1_hits"] * 2 == fits["l1_sectors"]
    assert traffic(fits, "x")["again"] == 0
    crowded = costs(text, "twice", 8, 2048, l1_bytes=2 << 10)
    assert crowded["l1_hits"] < fits["l1_hits"] // 4
    assert traffic(crowded, "x")["again"] > 0


def test_what_all_blocks_load_is_counted_as_shared(text: str) -> None:
    found = traffic(costs(text, "twice", 8, 2048), "x")
    assert found["first"] == 8 * 2048 * 4 // 32
    assert found["alone"] <= found["first"] // 4


def test_dependent_loads_wait_for_each_other(text: str) -> None:
    chained, side_by_side = costs(text, "chain", 2), costs(text, "independent", 2)
    assert chained["latency"] / chained["sampled"] > DRAM / 2 + 7 * L1
    assert side_by_side["latency"] / side_by_side["sampled"] < 2 * DRAM


def test_functions_that_were_not_inlined_cost_too(text: str) -> None:
    short, long = costs(text, "calls", 4, 100), costs(text, "calls", 4, 1000)
    assert long["pipes"]["fma"] == 10 * short["pipes"]["fma"] == 4 * 2 * 1000
    assert long["latency"] > short["latency"] + 4 * 900


def test_atomics_on_one_address_are_counted_by_lanes(text: str) -> None:
    found = costs(text, "one_place", 4)
    assert found["atomic_lanes"] == 4 * THREADS
    assert found["hottest_atomic"] == 4 * THREADS


def test_the_machine_runs_everything_again_afterwards(text: str) -> None:
    out, x = torch.zeros(640), torch.ones(640)
    with Machine() as machine:
        machine.allow(out.data_ptr(), 2560, "out")
        machine.allow(x.data_ptr(), 2560, "x")
        machine.sample_for([16 << 10, 50e6, 10, 2, 1e6, 0, 0, L1, L2, DRAM, 25, 20])
        machine.sample_for([])
        arguments = [struct.pack("Q", t.data_ptr()) for t in (out, x)]
        report = machine.load(text).launch("copy", (10, 1, 1), (THREADS, 1, 1), arguments)
    assert report.costs is None and torch.equal(out, x)
