"""How fast the PTX machine is, on one core and on all; and what the small workloads of the suite's tasks
take, time and memory, for every kernel there is: one call with all checks and counters on.

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
from publish import publish
from variants import FOLDER, kernel_files, read_kernel

from kernelblaster.devices.emulated import EmulatedDevice
from kernelblaster.devices.toolchain import toolchain
from kernelblaster.errors import BadTask
from kernelblaster.judge.baseline import ModuleBaseline
from kernelblaster.judge.compile import Binary, compile_candidate
from kernelblaster.judge.eager_trace import trace
from kernelblaster.judge.emulate import small_workload
from kernelblaster.judge.layout import slot_bytes
from kernelblaster.judge.profile import filled_layout
from kernelblaster.ptx.machine import Machine
from kernelblaster.tasks.catalog import load_task
from kernelblaster.testing.corpus import ROOT

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
    __syncwarp();
    out[i] = tile[threadIdx.x ^ 1] + x[i ^ 3];
    __syncwarp();
  }
}
"""


def operations(file: Path) -> float:
    """Of the matrix products and convolutions of a task at its small workload."""
    task = load_task(str(file))
    steps = trace(task, small_workload(task))
    return sum(launch.operations for launch in steps if launch is not None)


def small_workloads() -> list[str]:
    """One call of each kernel at its task's small workload: seconds, and the worker's largest memory."""
    device = EmulatedDevice()
    rows = []
    files = [*kernel_files(ROOT / "tests" / "candidates"), *kernel_files(FOLDER)]
    for kernel in map(read_kernel, files):
        try:
            workload = small_workload(kernel.task)
        except BadTask as error:
            print(error)
            continue
        binary = compile_candidate(kernel.task, kernel.candidate, device.spec.architecture)
        assert isinstance(binary, Binary), binary
        device.arena(slot_bytes(kernel.task.signature, [workload]))
        baseline = ModuleBaseline(kernel.task, device, small=True)
        layout = filled_layout(device, kernel.task, baseline, workload)
        call = layout.arguments(kernel.task.signature, baseline.at(workload).scalars)
        runner = device.start(binary.path)
        start = time.perf_counter()
        runner.call(call, scratch_poison=-1, accounting=False)
        seconds = time.perf_counter() - start
        status = Path(f"/proc/{runner.pid}/status").read_text()
        peak = int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1])
        runner.close()
        rows.append((seconds, peak / 1024, kernel.title, kernel.task.name))
    device.close()
    rows.sort(reverse=True)
    largest = max(map(operations, sorted((ROOT / "suites" / "core").glob("level*/*.py"))))
    tasks = {row[3] for row in rows}
    lines = [
        "",
        f"One call at the small workload, {len(rows)} kernels of {len(tasks)} tasks: at most "
        f"{rows[0][0]:.2f} s and {max(row[1] for row in rows):.0f} MiB.",
        "",
        f"The largest small workload of all tasks in the suite has {largest / 1e6:.1f} million operations.",
        "",
        "| kernel | task | s | MiB |",
        "|---|---|---|---|",
    ]
    return lines + [f"| {title} | {task} | {s:.2f} | {mib:.0f} |" for s, mib, title, task in rows[:8]]


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
    lines += small_workloads()
    publish(lines, arguments.out)


if __name__ == "__main__":
    main()
