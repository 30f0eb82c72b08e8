"""Device functions that were not inlined, printf, and texts that call what they should not."""

import random
import struct
import subprocess
from pathlib import Path

import pytest
import torch

from kernelblaster.errors import KernelBlasterError
from kernelblaster.ptx.machine import Machine, NotEmulated

SOURCE = """
#include <cstdio>
struct Big { int v[6]; };
__device__ __noinline__ float twice(float x) { return x * 2.0f + 1.0f; }
__device__ __noinline__ int sum(Big b, int k) {
  int s = 0;
  for (int i = 0; i < 6; ++i) s += b.v[i] * k;
  return s;
}
__device__ __noinline__ Big make(int a) { Big b; for (int i = 0; i < 6; ++i) b.v[i] = a + i; return b; }
__device__ __noinline__ int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
__device__ __noinline__ void put(float* p, float v) { *p = v; }
__device__ __noinline__ float block_sum(float x) {
  __shared__ float cells[2];
  for (int o = 16; o > 0; o /= 2) x += __shfl_xor_sync(0xffffffffu, x, o);
  if (threadIdx.x % 32 == 0) cells[threadIdx.x / 32] = x;
  __syncthreads();
  return cells[0] + cells[1];
}
extern "C" __global__ void divergent(float* out, int* o) {
  int i = threadIdx.x;
  float y = i % 2 ? twice(out[i]) : -1.0f;
  __syncwarp();
  Big b = make(i);
  float local[4];
  put(&local[i % 4], y);
  o[i] = sum(b, i + 1) + fib(i % 8);
  out[i] = local[i % 4];
}
struct Shape { virtual __device__ float area(float x) const = 0; };
struct Square : Shape { __device__ float area(float x) const override { return x * x; } };
struct Disc : Shape { __device__ float area(float x) const override { return 3 * x; } };
__device__ float half_of(float x) { return x / 2; }
__device__ float (*functions[3])(float) = {twice, half_of, twice};
extern "C" __global__ void pointers(float* out, int* o) {
  Square square;
  Disc disc;
  int i = threadIdx.x;
  const Shape* shape = o[i] % 2 ? (const Shape*)&square : &disc;
  out[i] = functions[o[i] % 3](out[i]) + shape->area(i);
}
extern "C" __global__ void together(float* out, int* o) { out[threadIdx.x] = block_sum(out[threadIdx.x]); }
extern "C" __global__ void prints(float* out, int* o) {
  if (threadIdx.x == 3)
    printf("%d %5.2f|%-4s|%s %lld %c%% %x\\n", o[3], out[3], "ab", "text", 123456789012LL, 'x', 255u);
}
extern "C" __global__ void prints_much(float* out, int* o) { printf("0123456789012345678901234567\\n"); }
"""
HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"
CALLER = """
.func (.param .b32 r) f(.param .b32 a) {
.reg .b32 %r<3>;
.reg .pred %p;
ld.param.u32 %r0, [a];
setp.eq.u32 %p, %r0, 0;
@%p bra DONE;
{ .param .b32 param0; .param .b32 retval0;
sub.u32 %r1, %r0, 1;
st.param.b32 [param0+0], %r1;
call.uni (retval0), f, (param0);
ld.param.b32 %r2, [retval0+0]; }
DONE: st.param.b32 [r+0], %r0;
ret;
}
.visible .entry k(.param .u64 k_0) {
.reg .b32 %r<4>;
{ .param .b32 param0; .param .b32 retval0;
mov.u32 %r0, %tid.x;
st.param.b32 [param0+0], %r0;
call.uni (retval0), f, (param0);
ld.param.b32 %r1, [retval0+0]; }
ret;
}
"""


@pytest.fixture(scope="module")
def text(compiler: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder: Path = tmp_path_factory.mktemp("calls")
    (folder / "k.cu").write_text(SOURCE)
    command = [compiler, "-O3", "-lineinfo", "-arch=compute_80", "-ptx", "k.cu", "-o", "k.ptx"]
    subprocess.run(command, cwd=folder, check=True)
    return (folder / "k.ptx").read_text()


def run(text: str, kernel: str) -> tuple[torch.Tensor, torch.Tensor, str]:
    out, o = torch.arange(64).float(), torch.arange(64, dtype=torch.int32)
    with Machine() as machine:
        for tensor, name in ((out, "out"), (o, "o")):
            machine.allow(tensor.data_ptr(), tensor.nbytes, name)
        pointers = [struct.pack("Q", t.data_ptr()) for t in (out, o)]
        report = machine.load(text).launch(kernel, (1, 1, 1), (64, 1, 1), pointers)
        if kernel == "prints_much":
            more = machine.load(text).launch(kernel, (64, 1, 1), (1024, 1, 1), pointers)
            assert len(more.printed) == 64 << 10
    assert not report.findings
    return out, o, report.printed


def test_calls_by_some_lanes(text: str) -> None:
    out, o, _ = run(text, "divergent")
    fib = [0, 1, 1, 2, 3, 5, 8, 13]
    assert out.tolist() == [2.0 * i + 1 if i % 2 else -1.0 for i in range(64)]
    assert o.tolist() == [(i + 1) * sum(i + k for k in range(6)) + fib[i % 8] for i in range(64)]


def test_calls_through_pointers(text: str) -> None:
    out, _, _ = run(text, "pointers")
    functions = [lambda x: 2 * x + 1, lambda x: x / 2, lambda x: 2 * x + 1]
    assert out.tolist() == [functions[i % 3](i) + (i * i if i % 2 else 3.0 * i) for i in range(64)]


def test_a_pointer_to_no_function(compiler: str) -> None:
    function, kernel = CALLER.split(".visible")
    kernel = kernel.replace("call.uni (retval0), f,", "call (retval0), %rd0,")
    kernel = kernel.replace("{\n.reg", "{\n.reg .b64 %rd<1>;\nmov.u64 %rd0, 16;\n.reg", 1)
    with Machine() as machine:
        module = machine.load(f"{HEAD}{function}.visible{kernel}")
        report = module.launch("k", (1, 1, 1), (32, 1, 1), [struct.pack("Q", 0)])
        assert report.stopped and report.findings[0].kind == "invalid-address"


def test_barriers_and_shared_memory_of_a_function(text: str) -> None:
    out, _, _ = run(text, "together")
    assert out.tolist() == [float(sum(range(64)))] * 64


def test_printf(text: str) -> None:
    assert run(text, "prints")[2] == "3  3.00|ab  |text 123456789012 x% ff\n"
    assert run(text, "prints_much")[2].count("\n") == 64


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("call.uni (retval0), f,", "call.uni (retval0), g,", "call of g, which has no body"),
        ("call.uni (retval0), f, (param0)", "call.uni f", "other parameters"),
        ("call.uni (retval0), f, (param0)", "call.uni vprintf, (missing)", "unknown parameters"),
    ],
)
def test_calls_that_are_refused(compiler: str, old: str, new: str, why: str) -> None:
    with Machine() as machine, pytest.raises(NotEmulated, match=why):
        module = machine.load(HEAD + CALLER.replace(old, new))
        module.launch("k", (1, 1, 1), (32, 1, 1), [struct.pack("Q", 0)])


def test_recursion_has_an_end(compiler: str) -> None:
    with Machine() as machine:
        module = machine.load(HEAD + CALLER)
        assert not module.launch("k", (1, 1, 1), (64, 1, 1), [struct.pack("Q", 0)]).findings
        report = module.launch("k", (1, 1, 1), (512, 1, 1), [struct.pack("Q", 0)])
        assert report.stopped and report.findings[0].kind == "stack-overflow"


def test_mangled_calls_do_not_bring_it_down(compiler: str) -> None:
    rng = random.Random(3)
    words = (
        "f",
        "k",
        "param0",
        "retval0",
        "(",
        ")",
        ",",
        "ret;",
        "call.uni f;",
        ".b64",
        "exit;",
        "bar.sync 0;",
        "r",
        "a",
    )
    for _ in range(1500):
        text = HEAD + CALLER
        for _ in range(rng.choice((1, 1, 2, 4))):
            at = rng.randrange(len(HEAD), len(text))
            text = text[:at] + rng.choice(words) + text[at + rng.randrange(12) :]
        with Machine() as machine:
            try:
                module = machine.load(text)
                for kernel in module.kernels:
                    places = module.parameters(kernel)
                    module.launch(kernel, (1, 1, 1), (64, 1, 1), [b"\0" * 8] * len(places), budget=10_000)
            except KernelBlasterError:
                pass
