"""Blocks of a cluster on the PTX machine: they run together, meet, and reach each other's shared memory."""

import struct
import subprocess
from pathlib import Path

import pytest
import torch

from kernelblaster.ptx.machine import Attributes, InvalidLaunch, Machine, Module, Report

SOURCE = """
#include <cstdint>
#define KERNEL extern "C" __global__ void __cluster_dims__(4)

// Every block tells all others its sum.
KERNEL pushed(float* out, const float* x) {
  __shared__ float parts[4];
  __cluster_barrier_arrive_relaxed();
  float sum = x[blockIdx.x * 32 + threadIdx.x];
  for (int o = 16; o > 0; o /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, o);
  __cluster_barrier_wait();
  float* there = (float*)__cluster_map_shared_rank(parts + __clusterRelativeBlockRank(), threadIdx.x % 4);
  if (threadIdx.x < 4) *there = sum;
  __cluster_barrier_arrive();
  __cluster_barrier_wait();
  if (threadIdx.x == 0) out[blockIdx.x] = parts[0] + parts[1] + parts[2] + parts[3];
}

// Every block looks at its neighbour's tile, through a pointer of which nothing is known.
KERNEL pulled(float* out, const float* x, int at_once) {
  __shared__ float tile[64];
  tile[threadIdx.x] = x[blockIdx.x * 64 + threadIdx.x];
  if (!at_once) { __cluster_barrier_arrive(); __cluster_barrier_wait(); }
  unsigned rank = __clusterRelativeBlockRank();
  const float* from = rank == 3 ? x : (const float*)__cluster_map_shared_rank(tile, rank + 1);
  out[blockIdx.x * 64 + threadIdx.x] = from[63 - threadIdx.x];
  __cluster_barrier_arrive();
  __cluster_barrier_wait();
}

// Blocks exchange by global memory too.
KERNEL by_memory(float* out, float* x) {
  x[blockIdx.x * 64 + threadIdx.x] = blockIdx.x;
  __cluster_barrier_arrive();
  __cluster_barrier_wait();
  out[blockIdx.x * 64 + threadIdx.x] = x[(blockIdx.x ^ 1) * 64 + 63 - threadIdx.x];
}

KERNEL late(float* out, float* x) {
  __shared__ float value;
  if (__clusterRelativeBlockRank() == 2) return;
  __cluster_barrier_arrive();
  __cluster_barrier_wait();
  *(float*)__cluster_map_shared_rank(&value, 2) = 1;
}

KERNEL apart(float* out, float* x) {
  if (__clusterRelativeBlockRank() == 1 && threadIdx.x < 32) __syncthreads();
  else { __cluster_barrier_arrive(); __cluster_barrier_wait(); }
}

KERNEL twice(float* out, float* x) {
  __cluster_barrier_arrive();
  __cluster_barrier_arrive();
}

// A cluster whose shape the launch gives.
extern "C" __global__ void shaped(float* out, float* x) {
  __shared__ float mine;
  unsigned rank = __clusterRelativeBlockRank();
  dim3 within = __clusterRelativeBlockIdx();
  mine = within.x + 10 * within.y + 100 * within.z;
  __cluster_barrier_arrive();
  __cluster_barrier_wait();
  float other = *(float*)__cluster_map_shared_rank(&mine, __clusterSizeInBlocks() - 1 - rank);
  if (threadIdx.x == 0) out[(blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x] = other;
  __cluster_barrier_arrive();
  __cluster_barrier_wait();
}

// The first block reads of the second, and nothing keeps that one from leaving before.
KERNEL leaves(float* out, float* x) {
  __shared__ float value;
  if (threadIdx.x == 0) value = x[blockIdx.x];
  __cluster_barrier_arrive();
  __cluster_barrier_wait();
  if (__clusterRelativeBlockRank() == 0) out[0] = *(float*)__cluster_map_shared_rank(&value, 1);
}

// All blocks read each other's value; the next one is stored behind a barrier of the block alone.
KERNEL overwritten(float* out, float* x, int together) {
  __shared__ float value;
  for (int k = 0; k < 2; ++k) {
    if (threadIdx.x == 0) value = x[blockIdx.x * 2 + k];
    __cluster_barrier_arrive();
    __cluster_barrier_wait();
    float* there = (float*)__cluster_map_shared_rank(&value, 3 - __clusterRelativeBlockRank());
    if (threadIdx.x == 0) out[blockIdx.x] += *there;
    if (together) { __cluster_barrier_arrive(); __cluster_barrier_wait(); }
    else __syncthreads();
  }
  __cluster_barrier_arrive();
  __cluster_barrier_wait();
}

KERNEL early(float* out, float* x) {
  __shared__ float value;
  if (threadIdx.x == 0) *(float*)__cluster_map_shared_rank(&value, 3 - __clusterRelativeBlockRank()) = 1;
  __cluster_barrier_arrive();
  __cluster_barrier_wait();
  if (threadIdx.x == 0) out[blockIdx.x] = value;
}

KERNEL beyond(float* out, float* x) {
  __shared__ float value;
  *(float*)__cluster_map_shared_rank(&value, 4) = 1;
}
"""


@pytest.fixture(scope="module")
def text(compiler: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder: Path = tmp_path_factory.mktemp("clusters")
    (folder / "k.cu").write_text(SOURCE)
    command = [compiler, "-O3", "-lineinfo", "-arch=compute_90", "-ptx", "k.cu", "-o", "k.ptx"]
    subprocess.run(command, cwd=folder, check=True)
    return (folder / "k.ptx").read_text()


@pytest.fixture
def machine():  # type: ignore[no-untyped-def]
    with Machine() as opened:
        yield opened


@pytest.fixture
def module(machine: Machine, text: str) -> Module:
    return machine.load(text)


def launch(
    machine: Machine, module: Module, kernel: str, threads: int, *numbers: int
) -> tuple[Report, torch.Tensor]:
    x, out = torch.arange(8 * threads, dtype=torch.float32), torch.zeros(8 * threads)
    arguments = []
    for tensor, name in ((out, "out"), (x, "x")):
        machine.allow(tensor.data_ptr(), tensor.numel() * 4, name)
        arguments.append(struct.pack("Q", tensor.data_ptr()))
    arguments += [struct.pack("i", number) for number in numbers]
    return module.launch(kernel, (8, 1, 1), (threads, 1, 1), arguments), out


def test_what_is_written_to_other_blocks_is_there_after_the_barrier(machine: Machine, module: Module) -> None:
    report, out = launch(machine, module, "pushed", 32)
    assert not report.findings
    assert out[:8].tolist() == [sum(range(128))] * 4 + [sum(range(128, 256))] * 4


def test_generic_pointers_reach_other_blocks(machine: Machine, module: Module) -> None:
    report, out = launch(machine, module, "pulled", 64, 0)
    assert not report.findings
    x = torch.arange(512, dtype=torch.float32).reshape(8, 64)
    expected = x.roll(-1, 0)
    expected[3] = expected[7] = x[0]
    assert torch.equal(out.reshape(8, 64), expected.flip(1))


def test_the_barrier_orders_shared_memory_of_others(machine: Machine, module: Module) -> None:
    report, _ = launch(machine, module, "overwritten", 2, 1)
    assert not report.findings


def test_the_barrier_orders_global_memory(machine: Machine, module: Module) -> None:
    report, out = launch(machine, module, "by_memory", 64)
    assert not report.findings
    assert out.reshape(8, 64)[:, 0].tolist() == [1, 0, 3, 2, 5, 4, 7, 6]


@pytest.mark.parametrize(
    ("kernel", "numbers", "kind"),
    [
        ("pulled", (1,), "uninitialized"),
        ("late", (), "out-of-bounds"),
        ("leaves", (), "cluster-exit"),
        ("overwritten", (0,), "race"),
        ("early", (), "race"),
        ("apart", (), "deadlock"),
        ("twice", (), "divergent-barrier"),
        ("beyond", (), "invalid-address"),
    ],
)
def test_mistakes(machine: Machine, module: Module, kernel: str, numbers: tuple[int, ...], kind: str) -> None:
    report, _ = launch(machine, module, kernel, 64, *numbers)
    assert kind in {finding.kind for finding in report.findings}


def test_a_grid_consists_of_whole_clusters(machine: Machine, module: Module) -> None:
    with pytest.raises(InvalidLaunch):
        module.launch("pushed", (6, 1, 1), (32, 1, 1), [struct.pack("Q", 0)] * 2)


def test_the_launch_gives_the_shape(machine: Machine, module: Module) -> None:
    out = torch.zeros(16)
    machine.allow(out.data_ptr(), out.nbytes, "out")
    arguments = [struct.pack("Q", out.data_ptr())] * 2
    report = module.launch(
        "shaped", (4, 4, 1), (32, 1, 1), arguments, attributes=Attributes(cluster=(2, 2, 1))
    )
    assert not report.findings
    assert out.reshape(4, 4)[:2, :2].tolist() == [[11, 10], [1, 0]]
    assert torch.equal(out.reshape(4, 4)[:2, :2], out.reshape(4, 4)[2:, 2:])
    assert not module.launch(
        "shaped", (4, 4, 1), (32, 1, 1), arguments
    ).findings  # attributes are of one launch
    assert out.tolist() == [0] * 16
    for cluster in ((3, 1, 1), (4, 4, 4)):
        with pytest.raises(InvalidLaunch):
            module.launch("shaped", (4, 4, 1), (32, 1, 1), arguments, attributes=Attributes(cluster=cluster))
    with pytest.raises(InvalidLaunch):  # the kernel has another one
        module.launch("by_memory", (8, 1, 1), (32, 1, 1), arguments, attributes=Attributes(cluster=(2, 1, 1)))
