from pathlib import Path

from kernelblaster.devices.device import Device
from kernelblaster.judge.compile import Binary, compile_candidate
from kernelblaster.records import Candidate, Task, Workload
from kernelblaster.testing.device_contract import SIGNATURE, DeviceContract

KERNEL = """
__global__ void scale(float* out, const float* x, int64_t n, float by) {
  int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
  if (i < n) out[i] = by * x[i];
}
extern "C" void launch_gpu_implementation(float* out, const float* x, int64_t n, cudaStream_t stream) {
  unsigned blocks = (unsigned)((n + 255) / 256);
  BODY
}
"""
DOUBLE = "scale<<<blocks, 256, 0, stream>>>(out, x, n, 2.0f);"
BODIES = {
    "double": DOUBLE,
    "twice": "scale<<<blocks, 256, 0, stream>>>(out, x, n, 1.0f);" + DOUBLE,
    "scratch": "void* kept; cudaMallocAsync(&kept, 1000, stream);" + DOUBLE,
    "dies": "exit(7);",
    "hangs": "volatile int forever = 1; while (forever) {}",
}
TASK = Task(
    name="double",
    kind="cuda",
    path="double.cu",
    source="",
    dtype="float32",
    signature=SIGNATURE,
    workloads=(Workload(name="primary", sizes={"n": 1000}),),
)


class TestCudaDevice(DeviceContract):
    def binary(self, device: Device, behaviour: str) -> Path:
        source = "#include <cstdlib>\n" + KERNEL.replace("BODY", BODIES[behaviour])
        built = compile_candidate(TASK, Candidate(source=source), device.spec.architecture)
        assert isinstance(built, Binary), built
        return built.path
