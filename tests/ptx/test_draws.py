"""What hardware does not promise is drawn: a kernel that acts on it takes another way each time."""

import struct
import subprocess

import pytest
import torch

from kernelblaster.ptx.machine import Draws, Machine, Report

SOURCE = """
#define KERNEL extern "C" __global__ void
__device__ float kept[8];
__device__ unsigned done;

KERNEL registers(long long* out) {
  unsigned processors, processor;
  unsigned long long grid;
  asm volatile("mov.u32 %0, %%nsmid; mov.u32 %1, %%smid; mov.u64 %2, %%gridid;"
               : "=r"(processors), "=r"(processor), "=l"(grid));
  long long before = clock64();
  __shared__ int first[1];
  if (threadIdx.x) return;
  long long* mine = out + blockIdx.x * 6;
  mine[0] = processors;
  mine[1] = processor;
  mine[2] = grid;
  mine[3] = (long long)__cvta_generic_to_shared(first);
  mine[4] = before;
  mine[5] = clock64() - before;
}

KERNEL approximate(float* out) {
  asm volatile("tanh.approx.f32 %0, %1;" : "=f"(out[threadIdx.x]) : "f"(0.02f * (threadIdx.x + 1)));
  asm volatile("rcp.approx.f32 %0, %1;" : "=f"(out[32 + threadIdx.x]) : "f"(3.0f + threadIdx.x));
}

// The last block adds up what the others have stored, with a fence between value and count or without.
KERNEL last(float* out, int fenced) {
  *(volatile float*)&kept[blockIdx.x] = 1;
  if (fenced) __threadfence();
  if (atomicAdd(&done, 1u) < gridDim.x - 1) return;
  if (fenced) __threadfence();
  float sum = 0;
  for (int b = 0; b < gridDim.x; ++b) sum += *(volatile float*)&kept[b];
  out[0] = sum;
}
"""


@pytest.fixture(scope="module")
def text(compiler: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("draws")
    (folder / "k.cu").write_text(SOURCE)
    subprocess.run(
        [compiler, "-O3", "-arch=compute_90", "-ptx", "k.cu", "-o", "k.ptx"], cwd=folder, check=True
    )
    return (folder / "k.ptx").read_text()


def launch(
    text: str, draws: Draws, kernel: str, shape: tuple[int, int], out: torch.Tensor, *numbers: int
) -> Report:
    with Machine() as machine:
        machine.draw(draws)
        machine.allow(out.data_ptr(), out.nbytes, "out")
        arguments = [struct.pack("Q", out.data_ptr()), *(struct.pack("i", number) for number in numbers)]
        return machine.load(text).launch(kernel, (shape[0], 1, 1), (shape[1], 1, 1), arguments)


def test_registers_are_those_of_the_gpu_and_differ_from_draw_to_draw(text: str) -> None:
    seen = []
    for seed in (1, 2):
        out = torch.zeros(8, 6, dtype=torch.int64)
        assert not launch(text, Draws(seed, multiprocessors=114), "registers", (8, 32), out).findings
        processors, processor, grid, shared, clock, passed = out.T.tolist()
        assert set(processors) == {114} and len(set(processor)) == 8 and max(processor) < 114
        assert len(set(grid)) == 1 and grid[0] > 0 and min(shared) >= 1024
        assert min(clock) > 1 << 32 and min(passed) > 0 and max(passed) < 2000
        seen.append((processor, grid[0], clock))
    assert all(one != other for one, other in zip(*seen, strict=True))


def test_approximations_err_as_much_as_documented_or_hardly(text: str) -> None:
    arguments = 0.02 * torch.arange(1, 33, dtype=torch.float64)
    errors = []
    for level in (1, 7):
        out = torch.zeros(64)
        launch(text, Draws(5, inexact=level), "approximate", (1, 32), out)
        tanh = (out[:32].double() / arguments.float().double().tanh() - 1).abs()
        reciprocal = (out[32:].double() * (3 + torch.arange(32)) - 1).abs()
        assert tanh.max() < 2**-10.98 and reciprocal.max() < 2**-22.4
        errors.append((float(tanh.max()), float(reciprocal.max())))
    assert errors[0][0] > 2**-14 > errors[1][0] and errors[0][1] > 2**-24 >= errors[1][1]


@pytest.mark.parametrize("fenced", [False, True])
def test_reads_without_order_may_return_what_was_there_before(text: str, fenced: bool) -> None:
    sums = []
    for stale in (False, True):
        out = torch.zeros(1)
        report = launch(text, Draws(3, stale=stale), "last", (6, 1), out, int(fenced))
        assert not report.findings and report.doubtful != fenced
        sums.append(float(out))
    assert sums[0] == 6 and (sums[1] == 6) == fenced
