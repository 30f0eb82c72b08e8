"""The verdict on convolutions by the precision of their operands.

    python benchmarks/tf32_convolutions.py [--device cuda|emulated] [--out results/tf32-convolutions.md]

Each of several convolutions is computed by one plain kernel in five ways: on float32 operands, on operands
rounded to TF32, on halves after scaling by a power of two, on operands cut off to TF32, and on bfloat16.
Products are added in float32, as tensor cores do. Where PyTorch rounds to TF32 at the primary workload, the
second and third must pass and bfloat16 must not; where it does not, only float32 may. Exits with 1 if a
verdict is another.
"""

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

from kernelblaster.judge.judge import DeviceJudge
from kernelblaster.judge.under_test import Checked
from kernelblaster.opening import open_judge
from kernelblaster.records import Candidate, Incorrect, Task, Verification
from kernelblaster.tasks.catalog import load_source
from kernelblaster.tasks.header import c_arguments

TASK = """import torch
import torch.nn as nn

batch, channels, filters, size = {batch}, {channels}, {filters}, {size}
SMALL = {{"batch": 2, "channels": {small}, "filters": {small_filters}, "size": {small_size}}}


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(channels, filters, {words})

    def forward(self, x):
        return self.conv(x)


def get_inputs():
    return [torch.randn(batch, channels, size, size)]


def get_init_inputs():
    return []
"""
KERNEL = """#include <cuda_fp16.h>
#include <cuda_bf16.h>

__device__ unsigned as_bits(float v) {{ return __float_as_uint(v); }}
__device__ float exact(float v, float) {{ return v; }}
__device__ float tf32(float v, float) {{
  unsigned rounded;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(rounded) : "f"(v));
  return __uint_as_float(rounded);
}}
__device__ float cut(float v, float) {{ return __uint_as_float(as_bits(v) & 0xffffe000u); }}
__device__ float half_scaled(float v, float scale) {{
  return __half2float(__float2half_rn(v * scale)) / scale;
}}
__device__ float bfloat(float v, float) {{ return __bfloat162float(__float2bfloat16_rn(v)); }}

__global__ void largest_magnitude(const float* values, long long count, unsigned* largest) {{
  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < count;
       i += (long long)gridDim.x * blockDim.x) {{
    unsigned bits = as_bits(values[i]) & 0x7fffffffu;
    if (bits < 0x7f800000u && bits > *(volatile unsigned*)largest) atomicMax(largest, bits);
  }}
}}

// The power of two that brings the largest magnitude to just below 2^14.
__device__ float scale_of(unsigned largest) {{
  int exponent = int(largest >> 23) - 127;
  return largest == 0 ? 1.0f : exp2f(float(min(max(13 - exponent, -100), 100)));
}}

__global__ void convolve(float* out, const float* x, const float* weight, const float* bias, long long total,
                         int channels, int filters, int height, int width, int rows, int columns,
                         const unsigned* largest) {{
  long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i >= total) return;
  float x_scale = scale_of(largest[0]), w_scale = scale_of(largest[1]);
  int column = i % columns, row = i / columns % rows, f = i / columns / rows % filters;
  long long image = i / columns / rows / filters;
  int in_group = channels / {groups}, group = f / (filters / {groups});
  float sum = 0.0f;
  for (int c = 0; c < in_group; ++c)
    for (int u = 0; u < {kernel}; ++u)
      for (int v = 0; v < {kernel}; ++v) {{
        int y = row * {stride} - {padding} + u, z = column * {stride} - {padding} + v;
        if (y < 0 || y >= height || z < 0 || z >= width) continue;
        float a = x[((image * channels + group * in_group + c) * height + y) * width + z];
        float b = weight[((f * in_group + c) * {kernel} + u) * {kernel} + v];
        sum += {arithmetic}(a, x_scale) * {arithmetic}(b, w_scale);
      }}
  out[i] = sum + bias[f];
}}

extern "C" void launch_gpu_implementation({arguments}, cudaStream_t stream) {{
  long long n = {n}, filters = {f}, rows = {r}, columns = {k}, channels = {c}, height = {h}, width = {w};
  long long total = n * filters * rows * columns;
  unsigned* largest;
  cudaMallocAsync(&largest, 8, stream);
  cudaMemsetAsync(largest, 0, 8, stream);
  long long weights = filters * (channels / {groups}) * {kernel} * {kernel};
  largest_magnitude<<<{blocks}, 256, 0, stream>>>(x, n * channels * height * width, largest);
  largest_magnitude<<<{blocks}, 256, 0, stream>>>(conv_weight, weights, largest + 1);
  convolve<<<(total + 255) / 256, 256, 0, stream>>>(out, x, conv_weight, conv_bias, total, channels, filters,
                                                    height, width, rows, columns, largest);
  cudaFreeAsync(largest, stream);
}}
"""
WAYS = {
    "float32": "exact",
    "TF32": "tf32",
    "scaled half": "half_scaled",
    "TF32 cut off": "cut",
    "bfloat16": "bfloat",
}


@dataclass(frozen=True)
class Convolution:
    """A convolution of square images: `small_size` is the extent of the emulated ones, `rounded` whether
    PyTorch computes it on TF32 operands at its own size."""

    title: str
    batch: int
    channels: int
    filters: int
    size: int
    kernel: int
    stride: int = 1
    padding: int = 0
    groups: int = 1
    small_size: int = 12
    rounded: bool = True

    @property
    def task(self) -> Task:
        words = f"{self.kernel}, stride={self.stride}, padding={self.padding}, groups={self.groups}"
        grouped = self.groups > 1
        small = self.channels if self.channels < 16 else (self.groups if grouped else 16)
        return load_source(
            self.title,
            TASK.format(
                batch=self.batch,
                channels=self.channels,
                filters=self.filters,
                size=self.size,
                words=words,
                small=small,
                small_filters=small if grouped else 24,
                small_size=self.small_size,
            ),
            "convolution.py",
        )

    def candidate(self, task: Task, way: str) -> Candidate:
        """The kernel of one way. Sizes that the task fixes are written as numbers."""
        x, out = task.signature.inputs[0], task.signature.outputs[0]
        named = dict(zip("nchw", x.dims, strict=True)) | dict(zip("nfrk", out.dims, strict=True))
        arguments = ", ".join(f"{kind} {name}" for kind, name in c_arguments(task.signature))
        return Candidate(
            source=KERNEL.format(
                arithmetic=WAYS[way],
                arguments=arguments,
                **named,
                kernel=self.kernel,
                stride=self.stride,
                padding=self.padding,
                groups=self.groups,
                blocks=64,
            )
        )


CONVOLUTIONS = (
    Convolution("3x3, 64 channels", 16, 64, 128, 56, 3, padding=1),
    Convolution("1x1, 256 channels", 16, 256, 128, 28, 1),
    Convolution("5x5, stride 2", 16, 32, 64, 112, 5, stride=2, padding=2),
    Convolution("3x3, 4 groups", 16, 64, 64, 56, 3, padding=1, groups=4),
    Convolution("7x7, 3 channels", 16, 3, 64, 112, 7, stride=2, padding=3, small_size=17, rounded=False),
)


def passes(checked: Checked) -> bool:
    """Whether a candidate is correct. Raises if it failed in another way than by wrong numbers."""
    if not isinstance(checked.outcome, Verification | Incorrect):
        raise SystemExit(f"not a question of precision: {checked.outcome}")
    return isinstance(checked.outcome, Verification)


def wanted(rounded: bool, way: str) -> bool | None:
    """The right verdict; None where either will do."""
    if way == "TF32 cut off" and rounded:
        return None
    return {"float32": True, "bfloat16": False}.get(way, rounded)


def row(judge: DeviceJudge, convolution: Convolution) -> tuple[str, int]:
    """A line of the table, and how many of its verdicts are wrong."""
    task = convolution.task
    _, floor = judge.prepare(task)
    rounded = floor.rounded == "convolutions"
    cells, wrong = [], int(judge.device.modelled and rounded != convolution.rounded)
    for way in WAYS:
        correct, right = passes(judge.check(task, convolution.candidate(task, way))), wanted(rounded, way)
        wrong += right is not None and correct != right
        cells.append(("correct" if correct else "incorrect") + ("" if right in (None, correct) else " (!)"))
    return f"| {convolution.title} | {'TF32' if rounded else 'float32'} | {' | '.join(cells)} |", wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--device", choices=("auto", "cuda", "emulated"), default="auto")
    parser.add_argument("--out", type=Path, help="write the table to this file too")
    options = parser.parse_args()
    lines = [f"| convolution | PyTorch rounds to | {' | '.join(WAYS)} |", "|---" * (2 + len(WAYS)) + "|"]
    wrong = 0
    with open_judge(options.device) as judge:
        title = judge.device.name
        print(*lines, sep="\n", flush=True)
        for convolution in CONVOLUTIONS:
            line, more = row(judge, convolution)
            wrong += more
            lines.append(line)
            print(line, flush=True)
    print(f"{wrong} wrong verdicts")
    if options.out:
        head = (
            f"# Convolutions by the precision of their operands\n\nOn {title}; {wrong} verdicts are wrong.\n"
        )
        command = f"python benchmarks/tf32_convolutions.py --device {options.device}"
        options.out.write_text("\n".join([head, *lines, "", f"Made by `{command}`."]) + "\n")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
