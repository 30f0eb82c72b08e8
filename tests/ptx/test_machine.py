"""Kernels compiled by nvcc, run by the PTX machine, compared with plain Python and torch."""

import struct
import subprocess
from pathlib import Path

import pytest
import torch

from kernelblaster.ptx.machine import BadPtx, InvalidLaunch, Machine, Module, NotEmulated, Report

SOURCE = """
#include <cstdint>
extern "C" __global__ void saxpy(float* out, const float* x, float a, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = a * x[i] + 1.0f;
}
extern "C" __global__ void rowsum(float* out, const float* x, int columns) {
  __shared__ float partial[8];
  float sum = 0;
  for (int c = threadIdx.x; c < columns; c += blockDim.x) sum += x[blockIdx.x * columns + c];
  for (int o = 16; o > 0; o /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, o);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int w = 1; w < blockDim.x / 32; ++w) sum += partial[w];
    out[blockIdx.x] = sum;
  }
}
extern "C" __global__ void collatz(int* out, const int* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  long long v = x[i];
  int steps = 0;
  while (v != 1) {
    if (v % 2) v = 3 * v + 1; else v /= 2;
    if (++steps > 500) break;
  }
  out[i] = steps;
}
extern "C" __global__ void count(int* out) { atomicAdd(out, (int)threadIdx.x); }
extern "C" __global__ void past_the_end(float* out, int n) { out[n + threadIdx.x] = 1.0f; }
extern "C" __global__ void crooked(char* out) { *(float*)(out + 1 + 4 * threadIdx.x) = 1.0f; }
extern "C" __global__ void endless(volatile int* out) { while (out[0] == 0) {} }
extern "C" __global__ void lonely_barrier(int* out) {
  if (threadIdx.x < 32) __syncthreads();
  else while (atomicAdd(out, 0) == 0) __nanosleep(20);
}
extern "C" __global__ void scratch_reader(float* out, const float* s) { out[threadIdx.x] = s[threadIdx.x]; }
extern "C" __global__ void waiting(long long* out) {
  const long long begin = clock64();
  const unsigned first = (unsigned)clock();
  while (clock64() - begin < 1000000) {}
  out[0] = clock64() - begin;
  out[1] = (unsigned)clock() - first;
}
extern "C" __global__ void stop() { __trap(); }
"""


@pytest.fixture(scope="module")
def text(compiler: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder: Path = tmp_path_factory.mktemp("ptx")
    (folder / "k.cu").write_text(SOURCE)
    subprocess.run(
        [compiler, "-O3", "-lineinfo", "-arch=compute_80", "-ptx", "k.cu", "-o", "k.ptx"],
        cwd=folder,
        check=True,
    )
    return (folder / "k.ptx").read_text()


@pytest.fixture
def machine():  # type: ignore[no-untyped-def]
    with Machine() as opened:
        yield opened


@pytest.fixture
def module(machine: Machine, text: str) -> Module:
    return machine.load(text)


def pointer(machine: Machine, tensor: torch.Tensor, name: str = "x", tracked: bool = False) -> bytes:
    machine.allow(tensor.data_ptr(), tensor.numel() * tensor.element_size(), name, tracked=tracked)
    return struct.pack("Q", tensor.data_ptr())


def integer(value: int) -> bytes:
    return struct.pack("i", value)


def test_a_plain_kernel(machine: Machine, module: Module) -> None:
    x, out = torch.randn(1000), torch.zeros(1000)
    arguments = [pointer(machine, out), pointer(machine, x), struct.pack("f", 2.5), integer(1000)]
    report = module.launch("saxpy", (4, 1, 1), (256, 1, 1), arguments)
    assert not report.findings
    expected = (x.double() * 2.5 + 1.0).float()  # one rounding: the kernel uses a fused operation
    assert torch.equal(out, expected)
    assert report.counts["global_load_requests"] == 32
    assert report.counts["global_load_sectors"] == pytest.approx(
        125, abs=32
    )  # by alignment of the host memory


def test_barriers_shuffles_and_shared_memory(machine: Machine, module: Module) -> None:
    x, out = torch.randint(-50, 50, (7, 333)).float(), torch.zeros(7)
    arguments = [pointer(machine, out), pointer(machine, x), integer(333)]
    report = module.launch("rowsum", (7, 1, 1), (128, 1, 1), arguments)
    assert not report.findings
    assert torch.equal(out, x.sum(1))
    assert report.counts["barriers"] == 7 * 4


def test_divergent_loops(machine: Machine, module: Module) -> None:
    x = torch.arange(1, 201, dtype=torch.int32)
    out = torch.zeros(200, dtype=torch.int32)
    module.launch(
        "collatz", (2, 1, 1), (128, 1, 1), [pointer(machine, out), pointer(machine, x), integer(200)]
    )

    def steps(v: int) -> int:
        count = 0
        while v != 1:
            v = 3 * v + 1 if v % 2 else v // 2
            count += 1
        return count

    assert out.tolist() == [steps(int(v)) for v in x]


def test_atomics_across_blocks(machine: Machine, module: Module) -> None:
    out = torch.zeros(1, dtype=torch.int32)
    module.launch("count", (50, 1, 1), (96, 1, 1), [pointer(machine, out)])
    assert int(out) == 50 * sum(range(96))


def line_of(text: str) -> int:
    return SOURCE.splitlines().index(next(line for line in SOURCE.splitlines() if text in line)) + 1


def only(report: Report) -> tuple[str, int]:
    finding = report.findings[0]
    return finding.kind, finding.line


def test_faults_name_their_line(machine: Machine, module: Module) -> None:
    out = torch.zeros(64)
    arguments = [pointer(machine, out, "out"), integer(64)]
    report = module.launch("past_the_end", (1, 1, 1), (32, 1, 1), arguments)
    assert report.stopped and only(report) == ("out-of-bounds", line_of("past_the_end"))
    assert "out" in report.findings[0].detail
    report = module.launch("crooked", (1, 1, 1), (8, 1, 1), arguments[:1])
    assert only(report) == ("misaligned", line_of("crooked"))
    report = module.launch("stop", (1, 1, 1), (1, 1, 1), [])
    assert only(report)[0] == "trap"


def test_endless_loops_end(machine: Machine, module: Module) -> None:
    out = torch.zeros(1, dtype=torch.int32)
    arguments = [pointer(machine, out)]
    report = module.launch("endless", (1, 1, 1), (32, 1, 1), arguments, budget=100_000)
    assert only(report)[0] == "deadlock"
    report = module.launch("lonely_barrier", (1, 1, 1), (64, 1, 1), arguments, budget=100_000)
    assert only(report)[0] == "deadlock"


def test_waiting_by_the_clock_ends(machine: Machine, module: Module) -> None:
    out = torch.zeros(2, dtype=torch.int64)
    report = module.launch("waiting", (1, 1, 1), (32, 1, 1), [pointer(machine, out)])
    assert not report.findings
    assert out.min() >= 1_000_000


def test_use_after_free(machine: Machine, module: Module) -> None:
    out = torch.zeros(64)
    arguments = [pointer(machine, out), integer(0)]
    machine.forbid(out.data_ptr())
    report = module.launch("past_the_end", (1, 1, 1), (32, 1, 1), arguments)
    assert only(report)[0] == "use-after-free"


def test_uninitialized_scratch_is_noted(machine: Machine, module: Module) -> None:
    out, scratch = torch.zeros(32), torch.zeros(32)
    arguments = [pointer(machine, out), pointer(machine, scratch, "scratch", tracked=True)]
    report = module.launch("scratch_reader", (1, 1, 1), (32, 1, 1), arguments)
    assert not report.stopped and only(report)[0] == "uninitialized"


def test_launches_that_no_gpu_accepts(module: Module) -> None:
    with pytest.raises(InvalidLaunch):
        module.launch("stop", (1, 1, 1), (2048, 1, 1), [])
    with pytest.raises(InvalidLaunch):
        module.launch("stop", (0, 1, 1), (32, 1, 1), [])
    with pytest.raises(InvalidLaunch):
        module.launch("stop", (1, 1, 1), (32, 1, 1), [], shared_bytes=1 << 20)


def test_unknown_instructions_are_refused_by_name_where_they_are_executed(machine: Machine) -> None:
    module = machine.load(
        ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k()\n{\n.reg .pred %p<2>;\n"
        ".reg .b32 %r<2>;\nmov.u32 %r1, %ctaid.x;\nsetp.eq.u32 %p1, %r1, 0;\n@%p1 bra END;\n"
        ".loc 1 7 0\n// begin inline asm\nwgmma.fence.sync.aligned;\n// end inline asm\nEND:\nret;\n}\n"
    )
    assert not module.launch("k", (1, 1, 1), (32, 1, 1), []).stopped
    with pytest.raises(NotEmulated, match=r"wgmma\.fence.*line 7.*in inline assembly"):
        module.launch("k", (2, 1, 1), (32, 1, 1), [])


def test_labels_belong_to_their_braces(machine: Machine) -> None:
    """Inline assembly that is inlined twice has its label twice."""
    again = "{\nadd.u32 %r1, %r1, 1;\nbra skip;\nadd.u32 %r1, %r1, 10;\nskip:\n}\n"
    module = machine.load(
        ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 k_out)\n{\n"
        ".reg .b32 %r<2>;\n.reg .b64 %rd<2>;\nld.param.u64 %rd1, [k_out];\nmov.u32 %r1, 0;\n"
        f"{again}{again}st.global.u32 [%rd1], %r1;\nret;\n}}\n"
    )
    out = torch.zeros(1, dtype=torch.int32)
    machine.allow(out.data_ptr(), 4, "out")
    module.launch("k", (1, 1, 1), (1, 1, 1), [struct.pack("Q", out.data_ptr())])
    assert int(out) == 2


@pytest.mark.parametrize("cut", [10, 200, 1000, 3000, 5000])
def test_truncated_texts_are_refused(machine: Machine, text: str, cut: int) -> None:
    body = text[: text.index(".entry") + cut]
    with pytest.raises(BadPtx, match="PTX line"):
        machine.load(body)


def test_lanes_wait_for_each_other_at_a_join_before_its_branch(machine: Machine) -> None:
    """Compilers put the join of a loop before its body: lanes that skip the body are there first."""
    module = machine.load(
        ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 k_out)\n{\n"
        ".reg .pred %p<4>;\n.reg .b32 %r<6>;\n.reg .b64 %rd<4>;\nld.param.u64 %rd1, [k_out];\n"
        "mov.u32 %r1, %tid.x;\nmov.u32 %r2, 0;\nbra.uni BODY;\nJOIN:\nsetp.ne.s32 %p1, %r2, 0;\n"
        "vote.sync.ballot.b32 %r3, %p1, -1;\nmul.wide.u32 %rd2, %r1, 4;\nadd.s64 %rd3, %rd1, %rd2;\n"
        "st.global.u32 [%rd3], %r3;\nret;\nBODY:\nsetp.gt.u32 %p2, %r1, 15;\n@%p2 bra JOIN;\n"
        "mov.u32 %r2, 7;\nbra.uni JOIN;\n}\n"
    )
    out = torch.zeros(32, dtype=torch.int32)
    machine.allow(out.data_ptr(), 128, "out")
    report = module.launch("k", (1, 1, 1), (32, 1, 1), [struct.pack("Q", out.data_ptr())])
    assert not report.findings
    assert out.tolist() == [0xFFFF] * 32


def test_lanes_that_never_come_to_a_vote_are_told(machine: Machine) -> None:
    module = machine.load(
        ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k()\n{\n.reg .pred %p<3>;\n"
        ".reg .b32 %r<4>;\nmov.u32 %r1, %tid.x;\nsetp.gt.u32 %p1, %r1, 15;\n@%p1 bra OTHER;\n"
        "vote.sync.ballot.b32 %r2, %p1, -1;\nret;\nOTHER:\nvote.sync.ballot.b32 %r3, %p1, -1;\nret;\n}\n"
    )
    report = module.launch("k", (1, 1, 1), (32, 1, 1), [])
    assert {finding.kind for finding in report.findings} == {"divergent-warp-sync"}
