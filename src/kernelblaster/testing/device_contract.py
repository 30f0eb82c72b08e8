"""Contract that every device (GPU, emulator, fake) must fulfil, as a test class to inherit from.

A subclass provides a fixture `device`, and a method `binary(device, behaviour)` if it does not run CUDA. The
behaviours are named below and are the same on every device: each is a candidate for the task `out[n] = 2 *
x[n]`.
"""

import random
from pathlib import Path

import pytest
import torch

from kernelblaster.devices.device import CandidateDied, CandidateHung, Device, ProfileJob
from kernelblaster.errors import KernelBlasterError
from kernelblaster.judge.compile import Binary, compile_candidate
from kernelblaster.judge.layout import lay_out
from kernelblaster.records import Candidate, Signature, Size, Task, Tensor, Workload

SIGNATURE = Signature(
    outputs=(Tensor(name="out", role="output", dtype="float32", dims=("n",)),),
    inputs=(Tensor(name="x", role="input", dtype="float32", dims=("n",)),),
    parameters=(),
    sizes=(Size(name="n", kind="free"),),
)
COUNT = 1000
TASK = Task(
    name="double",
    kind="cuda",
    path="double.cu",
    source="",
    dtype="float32",
    signature=SIGNATURE,
    workloads=(Workload(name="primary", sizes={"n": COUNT}),),
)
SOURCE = """
#include <cstdlib>
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


class DeviceContract:
    """Tests that every device (GPU, emulator, fake) must pass. The tests run candidates that behave in one of
    these ways. `double` is right; `twice` does the same in two launches; `scratch` leaks scratch memory;
    `dies` ends its process; `hangs` never returns."""

    def binary(self, device: Device, behaviour: str) -> Path:
        """Returns the compiled candidate with this behaviour (a key of BODIES). Overridden by devices that do
        not run CUDA."""
        source = SOURCE.replace("BODY", BODIES[behaviour])
        built = compile_candidate(TASK, Candidate(source=source), device.spec.architecture)
        assert isinstance(built, Binary), built
        return built.path

    def prepare(self, device: Device) -> tuple[torch.Tensor, torch.Tensor]:
        """Places the task's tensors in the device's arena (the memory that judge and candidate share): the
        input holds 0, 1, 2 and so on, every element of the output -1. Sets `self.layout` and
        `self.arguments`. Returns (output, input) as views of the arena."""
        arena = device.arena([4 * COUNT, 4 * COUNT])
        self.layout = lay_out(arena, SIGNATURE, TASK.primary, random.Random(1))
        self.arguments = self.layout.arguments(SIGNATURE, [])
        out, x = (self.layout.view(tensor) for tensor in SIGNATURE.tensors)
        out.fill_(-1.0)
        x.copy_(torch.arange(COUNT, dtype=torch.float32))
        device.settle()
        return out, x

    def test_judge_and_candidate_share_memory(self, device: Device) -> None:
        out, x = self.prepare(device)
        runner = device.start(self.binary(device, "double"))
        report = runner.call(self.arguments, scratch_poison=255, accounting=False)
        runner.close()
        assert report.error == "" and report.violations == () and report.live_bytes == 0
        assert len(report.work) == 1
        assert torch.equal(out, 2 * x)

    def test_a_call_may_be_prepared_before(self, device: Device) -> None:
        out, x = self.prepare(device)
        runner = device.start(self.binary(device, "double"))
        for _ in range(2):
            runner.prepare(self.arguments)
            runner.call(self.arguments, scratch_poison=255, accounting=False)
            assert torch.equal(out, 2 * x)
            out.fill_(-1.0)
            device.settle()
        runner.close()

    def test_times_are_consistent(self, device: Device) -> None:
        self.prepare(device)
        runner = device.start(self.binary(device, "double"))
        report = runner.time(self.arguments)
        runner.close()
        assert 0 < report.event_us <= report.span_us <= report.wall_us <= report.owner_us

    def test_every_launch_is_accounted_for(self, device: Device) -> None:
        self.prepare(device)
        runner = device.start(self.binary(device, "twice"))
        report = runner.call(self.arguments, scratch_poison=-1, accounting=True)
        runner.close()
        assert len(report.work) == 2
        assert all(work.duration_us is not None and work.duration_us > 0 for work in report.work)

    def test_scratch_that_is_kept_is_counted(self, device: Device) -> None:
        self.prepare(device)
        runner = device.start(self.binary(device, "scratch"))
        report = runner.call(self.arguments, scratch_poison=-1, accounting=False)
        runner.close()
        assert report.live_bytes > 0

    def test_a_dead_candidate_does_not_hurt_the_next(self, device: Device) -> None:
        out, x = self.prepare(device)
        runner = device.start(self.binary(device, "dies"))
        with pytest.raises(CandidateDied):
            runner.call(self.arguments, scratch_poison=-1, accounting=False)
        runner.close()
        runner = device.start(self.binary(device, "double"))
        runner.call(self.arguments, scratch_poison=-1, accounting=False)
        runner.close()
        assert torch.equal(out, 2 * x)

    def test_a_hung_candidate_is_ended(self, device: Device) -> None:
        self.prepare(device)
        runner = device.start(self.binary(device, "hangs"))
        with pytest.raises(CandidateHung):
            runner.call(self.arguments, scratch_poison=-1, accounting=False)
        runner.close()

    def test_what_cannot_be_loaded_says_so(self, device: Device) -> None:
        self.prepare(device)
        with pytest.raises(CandidateDied):
            device.start(Path("/nonexistent/candidate.so"))

    def test_profiles_list_kernels_in_launch_order(self, device: Device) -> None:
        self.prepare(device)
        jobs = [
            ProfileJob(self.binary(device, behaviour), self.arguments, "primary")
            for behaviour in ("double", "twice")
        ]
        one, two = device.profile(jobs)
        assert len(one.kernels) == 1 and len(two.kernels) == 2
        for kernel in (*one.kernels, *two.kernels):
            duration = kernel.metric("Duration")
            assert duration is not None and isinstance(duration.value, float) and duration.value > 0

    def test_reference_work_is_timed_where_there_is_a_clock(self, device: Device) -> None:
        x = torch.ones(1000, device=device.torch_device)
        if device.modelled:
            with pytest.raises(KernelBlasterError, match="no clock"):
                device.time_reference(lambda: x + 1)
        else:
            assert device.time_reference(lambda: x + 1) > 0
