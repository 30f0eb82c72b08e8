"""Host code as the compiler left it: assembly and counters are found, device code and headers let through."""

import pytest

from kernelblaster.judge.compile import Binary, compile_candidate
from kernelblaster.judge.screen_host import host_text, screen_host
from kernelblaster.records import Candidate, Rejected
from kernelblaster.tasks.catalog import load_task

LAUNCH = """
__global__ void kernel(float* out) { out[0] = 1; }
extern "C" void launch_gpu_implementation(float* out, const float* x, int64_t x_0, int64_t x_1,
                                          cudaStream_t stream) {
  INSIDE
  kernel<<<1, 32, 0, stream>>>(out);
}
"""
FRONT_END = """# 1 "candidate.cu"
# 9 "/usr/include/string.h" 3
char *index(char *) __asm__("index");
# 4 "candidate.cu"
static int f() { return
# 6
3; }
#if 0
# 7
{ __asm__ volatile("first"); }
#if 0
# 8 "elsewhere.h"
{ __asm__ volatile("second"); }
#endif
# 9 "candidate.cu"
{ __asm__ volatile("third"); }
#endif
# 10 "candidate.cu"
const char *s = "asm"; char c = '"'; int rd = __rdtscp(0);

__asm__("x");
# 1 "other.h"
__asm__("y");
"""


def test_only_host_code_of_the_file_is_judged() -> None:
    text = host_text(FRONT_END, "candidate.cu")
    assert "first" not in text and "second" not in text and "third" not in text and "index" not in text
    found = [(finding.rule, finding.line) for finding in screen_host(text)]
    assert found == [("forbidden-call", 10), ("host-assembly", 12)]


# Rule and line; what stands before, and inside the launch function.
FORBIDDEN = {
    "a macro": ("host-assembly", 5, "#define GO asm", 'GO volatile("pause");'),
    "glued": (
        "host-assembly",
        7,
        "#define A(a, b) a##b\n#define B(a, b) A(a, b)\n#define C B(__as, m__)",
        'C volatile("pause");',
    ),
    "another name": ("host-assembly", 1, 'int innocent(const char*) __asm__("puts");', 'innocent("a");'),
    "for both sides": (
        "host-assembly",
        1,
        '__host__ __device__ inline void f() { asm volatile(""); }',
        "f();",
    ),
    "not for the device": (
        "host-assembly",
        4,
        '#if 0\n__device__\n#endif\ninline void f() { asm volatile("pause"); }',
        "f();",
    ),
    "a counter": ("forbidden-call", 5, "", "if (__builtin_ia32_rdtsc() == 3) return;"),
}
HONEST = """
#include <cub/block/block_reduce.cuh>
#define DEVICE_ONLY(statement) statement
__host__ __device__ inline float f(float v) {
#ifdef __CUDA_ARCH__
    asm("ex2.approx.f32 %0, %0;" : "+f"(v));
#endif
    return v;
}
template <int N> __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(128) other(float* x) {
    auto wait = [&](int i) { DEVICE_ONLY(asm volatile("nanosleep.u32 1;")); return i; };
    __shared__ typename cub::BlockReduce<float, 128>::TempStorage storage;
    x[wait(N)] = f(cub::BlockReduce<float, 128>(storage).Sum(x[threadIdx.x]));
}
template __global__ void other<3>(float*);
"""


@pytest.mark.parametrize("name", FORBIDDEN)
def test_forbidden(name: str, compiler: str) -> None:
    rule, line, before, inside = FORBIDDEN[name]
    built = compile_(before, inside)
    assert isinstance(built, Rejected)
    assert built.reason == rule
    assert built.evidence.startswith(f"line {line}: ")


def test_cub_its_streams_and_ptx_for_the_device_pass(compiler: str) -> None:
    built = compile_(HONEST, "")
    assert isinstance(built, Binary), built


def compile_(before: str, inside: str) -> object:
    source = before + LAUNCH.replace("INSIDE", inside)
    return compile_candidate(load_task("core/level1/softmax"), Candidate(source=source), "sm_90a")
