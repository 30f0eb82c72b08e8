"""How fast the PTX machine is, on one core and on all.

python benchmarks/emulator.py [--out results/emulator.md]
"""

import argparse
import os
import struct
import subprocess
import tempfile
import time
from pathlib import Path

import torch

from kernelblaster.devices.toolchain import toolchain
from kernelblaster.ptx.machine import Machine

SOURCE = """
extern "C" __global__ void arithmetic(float* out, int steps) {
  float a = threadIdx.x, b = 1.0f;
  int h = threadIdx.x;
  for (int i = 0; i < steps; ++i) { a = a * 1.0001f + b; b = b * 0.999f + a; h = h * 1664525 + 1013904223; }
  out[blockIdx.x * blockDim.x + threadIdx.x] = a + b + h;
}
extern "C" __global__ void memory(float* out, const float* x, int n) {
  __shared__ float tile[256];
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    tile[threadIdx.x] = x[i];
    out[i] = tile[threadIdx.x ^ 1] + x[i ^ 3];
  }
}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp())
    (folder / "k.cu").write_text(SOURCE)
    command = [toolchain().nvcc, "-O3", "-arch=compute_90", "-ptx", "k.cu", "-o", "k.ptx"]
    subprocess.run(command, cwd=folder, check=True)
    count = 1 << 20
    x, out = torch.randn(count), torch.zeros(count)
    cores = os.cpu_count() or 1
    lines = [
        "# The PTX machine",
        "",
        "| kernel | cores | million lane instructions a second a core |",
        "|---|---|---|",
    ]
    with Machine() as machine:
        for name, tensor in (("x", x), ("out", out)):
            machine.allow(tensor.data_ptr(), tensor.nbytes, name)
        module = machine.load((folder / "k.ptx").read_text())
        pointers = [struct.pack("Q", t.data_ptr()) for t in (out, x)]
        runs = [
            ("arithmetic", [pointers[0], struct.pack("i", 2000)]),
            ("memory", [*pointers, struct.pack("i", count)]),
        ]
        for kernel, values in runs:
            for blocks in (1, 16 * cores):
                best = 0.0
                for _ in range(3):
                    start = time.perf_counter()
                    report = module.launch(kernel, (blocks, 1, 1), (256, 1, 1), values)
                    seconds = time.perf_counter() - start
                    best = max(best, report.counts["thread_instructions"] / seconds / 1e6)
                used = min(blocks, cores)
                lines.append(f"| {kernel} | {used} | {best / used:.0f} |")
    text = "\n".join(lines) + "\n"
    if arguments.out:
        arguments.out.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
