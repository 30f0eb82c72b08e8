"""What the binary stage refuses, and honest candidates that both stages must let through.

Each candidate is compiled for real, with a stand-in for the judge's header: the honest ones by nvcc.
Most forbidden ones differ in host code only, so their kernel is compiled once and linked to each; what
they say themselves goes straight to the host compiler, which takes a tenth of the time.
"""

import os
import shutil
import subprocess
import sys
import timeit
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from kernelblaster.errors import KernelBlasterError
from kernelblaster.judge.screen_binary import ALLOWED_CUDA, screen_binary
from kernelblaster.judge.screen_source import screen_source

HEADER = """
#include <cuda_runtime.h>
#include <cstdint>
extern "C" void launch_gpu_implementation(float*, const float*, int64_t, cudaStream_t);
extern "C" void kernelblaster_call(void* const* a, cudaStream_t stream) {
  launch_gpu_implementation(*(float**)a[0], *(const float**)a[1], *(int64_t*)a[2], stream);
}
"""
LAUNCH = """extern "C" void launch_gpu_implementation(
    float* out, const float* x, int64_t n, cudaStream_t stream)"""
KERNEL = """
__global__ void scale(float* out, const float* x, int64_t n) {
  int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
  if (i < n) out[i] = 2.0f * x[i];
}
"""


def candidate(before: str = "", inside: str = "") -> str:
    launch = "scale<<<(unsigned)((n + 255) / 256), 256, 0, stream>>>(out, x, n);"
    return f"{before}\n{KERNEL}\n{LAUNCH} {{\n{inside}\n  {launch}\n}}\n"


LAUNCH_SCALE = "void launch_scale(float* out, const float* x, int64_t n, cudaStream_t stream)"
KERNEL_PART = f"""
#include <cstdint>
{KERNEL}
{LAUNCH_SCALE} {{ scale<<<(unsigned)((n + 255) / 256), 256, 0, stream>>>(out, x, n); }}
"""


def host_part(before: str = "", inside: str = "") -> str:
    """What `candidate` says apart from its kernel, to be linked with `KERNEL_PART`."""
    launch = "launch_scale(out, x, n, stream);"
    return f"{before}\n{LAUNCH_SCALE};\n{LAUNCH} {{\n{inside}\n  {launch}\n}}\n"


HONEST = {
    "plain": candidate(),
    "no kernel": f"{LAUNCH} {{ cudaMemsetAsync(out, 0, n * sizeof(float), stream); }}",
    "error checks, printf, standard library": candidate(
        """
        #include <algorithm>
        #include <cassert>
        #include <cmath>
        #include <cstdio>
        #include <cstdlib>
        #include <map>
        #include <stdexcept>
        #include <string>
        #include <unordered_map>
        #include <vector>
        #define CHECK(call)                                                       \\
          do {                                                                    \\
            cudaError_t status = (call);                                          \\
            if (status != cudaSuccess) {                                          \\
              fprintf(stderr, "%s:%d: %s\\n", __FILE__, __LINE__, cudaGetErrorString(status)); \\
              exit(1);                                                            \\
            }                                                                     \\
          } while (0)
        static const float table[5] = {1, 2, 3, 5, 8};
        constexpr int sizes[] = {32, 64, 128};
        __global__ void talk() { printf("block %d\\n", blockIdx.x); assert(blockDim.x > 0); }
        """,
        """
        static std::map<int64_t, int> blocks;
        static std::unordered_map<std::string, int> named;
        std::vector<float> copy(table, table + 5);
        std::sort(copy.begin(), copy.end());
        blocks[n] = std::min<int>(sizes[n % 3], (int)std::sqrt((double)n));
        named[std::to_string(n)] += (int)std::pow(copy[n % 5], 0.3f);
        if (n < 0) throw std::runtime_error("negative size " + std::to_string(n));
        void* scratch = nullptr;
        CHECK(cudaMallocAsync(&scratch, 4 * blocks.size(), stream));
        CHECK(cudaMemcpyAsync(scratch, x, 4, cudaMemcpyDeviceToDevice, stream));
        talk<<<1, 32, 0, stream>>>();
        CHECK(cudaGetLastError());
        CHECK(cudaFreeAsync(scratch, stream));
        """,
    ),
    "attributes, occupancy, launch configuration": candidate(
        """
        #include <cooperative_groups.h>
        #include <cooperative_groups/reduce.h>
        namespace cg = cooperative_groups;
        __global__ void reduce(const float* x, float* out, int64_t n) {
          extern __shared__ float shared[];
          auto tile = cg::tiled_partition<32>(cg::this_thread_block());
          float v = threadIdx.x < n ? x[threadIdx.x] : 0.0f;
          v = cg::reduce(tile, v, cg::plus<float>());
          if (tile.thread_rank() == 0) { shared[0] = v; atomicAdd(out, shared[0]); }
        }
        """,
        """
        int blocks = 0, device = 0, best = 0, size = 0, sms = 0;
        cudaDeviceProp properties;
        cudaGetDevice(&device);
        cudaGetDeviceProperties(&properties, device);
        cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device);
        cudaFuncSetAttribute(reduce, cudaFuncAttributeMaxDynamicSharedMemorySize, 65536);
        cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, reduce, 128, 0);
        cudaOccupancyMaxPotentialBlockSize(&best, &size, reduce);
        cudaLaunchConfig_t config = {};
        config.gridDim = dim3(blocks * properties.multiProcessorCount + sms);
        config.blockDim = dim3(128);
        config.stream = stream;
        cudaLaunchKernelEx(&config, reduce, x, out, n);
        void* arguments[] = {&x, &out, &n};
        cudaLaunchCooperativeKernel((void*)reduce, dim3(1), dim3(128), arguments, 0, stream);
        """,
    ),
    "tensor cores, pipelines, PTX, constant and global memory": candidate(
        """
        #include <cuda_fp16.h>
        #include <cuda_pipeline.h>
        #include <mma.h>
        #define DEVICE __device__ __forceinline__
        __constant__ float coefficients[4];
        __device__ unsigned counter;
        DEVICE float exp2_fast(float v) {
          float r;
          asm volatile("ex2.approx.f32 %0, %1;" : "=f"(r) : "f"(v));
          return r;
        }
        template <int STAGES>
        __global__ void __launch_bounds__(128) product(const __half* a, float* out) {
          using namespace nvcuda;
          __shared__ __align__(16) __half tile[STAGES][256];
          __pipeline_memcpy_async(&tile[0][threadIdx.x * 8 % 256], a + threadIdx.x * 8 % 256, 16);
          __pipeline_commit();
          __pipeline_wait_prior(0);
          __syncthreads();
          wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> fa;
          wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::col_major> fb;
          wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
          wmma::fill_fragment(fc, exp2_fast(coefficients[0]));
          wmma::load_matrix_sync(fa, tile[0], 16);
          wmma::load_matrix_sync(fb, tile[0], 16);
          wmma::mma_sync(fc, fa, fb, fc);
          wmma::store_matrix_sync(out, fc, 16, wmma::mem_row_major);
          if (threadIdx.x == 0) atomicInc(&counter, 1000);
        }
        """,
        """
        const float values[4] = {1, 2, 3, 4};
        cudaMemcpyToSymbolAsync(coefficients, values, 16, 0, cudaMemcpyHostToDevice, stream);
        product<2><<<1, 128, 0, stream>>>((const __half*)x, out);
        """,
    ),
    "cub block reduction": candidate(
        """
        #include <cub/block/block_reduce.cuh>
        __global__ void total(const float* x, float* out) {
          using Reduce = cub::BlockReduce<float, 128>;
          __shared__ typename Reduce::TempStorage storage;
          float sum = Reduce(storage).Sum(x[threadIdx.x]);
          if (threadIdx.x == 0) *out = sum;
        }
        """,
        "total<<<1, 128, 0, stream>>>(x, out);",
    ),
}

# Here nvcc's own host code matters: what it generates for the words, or stands beside them.
WHOLE = {"managed memory", "static constructor"}

# The rule, the candidate, and further options for nvcc.
FORBIDDEN: dict[str, tuple[str, str, tuple[str, ...]]] = {
    name: (rule, (candidate if name in WHOLE else host_part)(before, inside), tuple(options))
    for name, (rule, before, inside, *options) in {
        "cudaMalloc": ("forbidden-import", "", "cudaMalloc((void**)&out, 4);"),
        "another stream": ("forbidden-import", "", "cudaStreamCreate(&stream);"),
        "events": ("forbidden-import", "", "cudaEvent_t e; cudaEventCreate(&e);"),
        "limits": ("forbidden-import", "", "cudaDeviceSetLimit(cudaLimitStackSize, 4096);"),
        "managed memory": ("forbidden-import", "__managed__ int shared_with_host;", ""),
        "host callback": ("forbidden-import", "", "cudaLaunchHostFunc(stream, nullptr, nullptr);"),
        "thread": ("forbidden-import", "#include <thread>", "std::thread([] {}).detach();"),
        "clock": ("forbidden-import", "#include <ctime>", "timespec t; clock_gettime(1, &t);"),
        "chrono": (
            "forbidden-import",
            "#include <chrono>",
            "n += std::chrono::steady_clock::now().time_since_epoch().count() & 1;",
        ),
        "environment": ("forbidden-import", "#include <cstdlib>", 'if (getenv("A")) return;'),
        "environ": ("forbidden-import", "extern char** environ;", "if (environ) return;"),
        "file": ("forbidden-import", "#include <cstdio>", 'fopen("/tmp/x", "w");'),
        "process": ("forbidden-import", "#include <cstdlib>", 'if (system("ls")) return;'),
        "dlopen": ("forbidden-import", "#include <dlfcn.h>", 'if (dlopen("a", 1)) return;'),
        "by another name": (
            "forbidden-import",
            'int innocent(const char*) __asm__("system");',
            'innocent("ls");',
        ),
        "pasted together": (
            "forbidden-import",
            '#define GLUE(a, b) a##b\nextern "C" int GLUE(for, k)();',
            "GLUE(for, k)();",
        ),
        "weak": (
            "forbidden-import",
            'extern "C" __attribute__((weak)) int cublasSgemm_v2();',
            "if (cublasSgemm_v2) return;",
        ),
        "standard output stream": ("forbidden-import", "#include <iostream>", "std::cout << n;"),
        "static constructor": (
            "load-time-code",
            "volatile int v; struct S { S() { v = 1; } }; static S s;",
            "",
        ),
        "static constructor beside streams": (
            "load-time-code",
            "#include <iostream>\nvolatile int v; struct S { S() { v = 1; } }; static S s;",
            "",
        ),
        "initial value": ("load-time-code", "int f(); int g = f();\nint f() { return 3; }", ""),
        "constructor": ("load-time-code", "__attribute__((constructor)) void f() {}", ""),
        "destructor": ("load-time-code", "__attribute__((destructor)) void f() {}", ""),
        "init_array": (
            "load-time-code",
            'void f() {} __attribute__((used, section(".init_array"))) void (*p)() = f;',
            "",
        ),
        "gmon_start": ("interposition", 'extern "C" void __gmon_start__() {}', ""),
        "hidden gmon_start": (
            "interposition",
            'extern "C" __attribute__((visibility("hidden"))) void __gmon_start__() {}',
            "",
        ),
        "ifunc": (
            "load-time-code",
            'extern "C" { void (*r())() { return nullptr; } }\n__attribute__((ifunc("r"))) void f();',
            "f();",
        ),
        "own cudaGetErrorName": (
            "interposition",
            'extern "C" void f() {}\nasm(".globl cudaGetErrorName; .set cudaGetErrorName, f");',
            "",
        ),
        "own malloc": (
            "interposition",
            'extern "C" void* malloc(size_t) noexcept { return nullptr; }',
            "",
        ),
        "a name of the judge": ("interposition", 'extern "C" void kernelblaster_x() {}', ""),
        "code section": (
            "executable-memory",
            '__attribute__((section("evil"), noinline)) int f(int a) { return a + 1; }',
            "n += f(n);",
        ),
        "executable stack": (
            "executable-memory",
            'asm(".pushsection .note.GNU-stack,\\"x\\",@progbits; .popsection");',
            "",
        ),
        "writable code": (
            "executable-memory",
            'asm(".pushsection .both,\\"awx\\",@progbits; .quad 0; .popsection");',
            "",
        ),
        "text relocation": (
            "executable-memory",
            'asm(".pushsection .text; .quad kernelblaster_call; .popsection");',
            "",
            "-Xlinker=-z,notext",
        ),
        "library path": ("library-path", "", "", "-Xlinker=-rpath,/tmp"),
        "library": ("forbidden-library", "", "", "-Xlinker=--no-as-needed", "-lresolv"),
    }.items()
}
FORBIDDEN["no launch function"] = ("missing-entry", "", ())

STREAMS = candidate("#include <iostream>")
SOURCES = {
    "streams": STREAMS,
    **HONEST,
    "host part": host_part(),
    **{name: source for name, (_, source, _) in FORBIDDEN.items()},
}
HOST_PARTS = {"host part", *FORBIDDEN} - WHOLE
Build = Callable[[str], Path]


def find_nvcc() -> str | None:
    wheels = (Path(folder) / "nvidia" / "cu13" / "bin" / "nvcc" for folder in sys.path)
    return shutil.which("nvcc") or next((str(path) for path in wheels if path.is_file()), None)


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Build]:
    """Compiles a candidate by its name; all are started at once, a few at a time."""
    nvcc = find_nvcc()
    if nvcc is None:
        pytest.skip("nvcc was found neither on PATH nor in the nvidia-cuda-nvcc package")
    folder = tmp_path_factory.mktemp("screen_binary")
    (folder / "header.h").write_text(HEADER)

    (folder / "kernel.cu").write_text(KERNEL_PART)

    def run(*arguments: str) -> None:
        command = [nvcc, "-O1", "-std=c++17", "-w", "-cudart", "none", "-arch=sm_80"]
        command += ["-Xcompiler", "-fPIC,-D__NV_LEGACY_LAUNCH", *arguments]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    def compile_(name: str) -> Path:
        stem = name.replace(" ", "_").replace(",", "")
        inputs = [f"{stem}.cpp", "kernel.o"] if name in HOST_PARTS else [f"{stem}.cu"]
        (folder / inputs[0]).write_text(SOURCES[name])
        extra = FORBIDDEN[name][2] if name in FORBIDDEN else ()
        run("-shared", "-include", "header.h", *inputs, "-o", f"{stem}.so", *extra)
        return folder / f"{stem}.so"

    run("-c", "kernel.cu", "-o", "kernel.o")
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        started: dict[str, Future[Path]] = {}
        if "PYTEST_XDIST_WORKER" not in os.environ:
            started = {name: pool.submit(compile_, name) for name in SOURCES}
        yield lambda name: started[name].result() if name in started else compile_(name)


@pytest.mark.parametrize("name", HONEST)
def test_honest_candidates_pass_both_stages(name: str, build: Build) -> None:
    assert screen_source(HONEST[name]) == []
    assert screen_binary(build(name)) == []


def test_what_the_forbidden_candidates_share_is_clean(build: Build) -> None:
    assert screen_binary(build("host part")) == []


@pytest.mark.parametrize("name", FORBIDDEN)
def test_forbidden(name: str, build: Build) -> None:
    rule = FORBIDDEN[name][0]
    assert rule in {finding.rule for finding in screen_binary(build(name))}


def test_a_hint_says_what_to_do_instead(build: Build) -> None:
    details = [finding.detail for finding in screen_binary(build("cudaMalloc"))]
    assert details == ["It imports `cudaMalloc`: use cudaMallocAsync on the given stream."]


def test_what_iostream_alone_runs_at_load_is_let_through(build: Build) -> None:
    """Old versions of cub include it. A candidate's own include is refused in the source."""
    assert screen_binary(build("streams")) == []
    assert [finding.rule for finding in screen_source(STREAMS)] == ["forbidden-include"]


def test_screening_takes_milliseconds(build: Build) -> None:
    path = build("plain")
    assert min(timeit.repeat(lambda: screen_binary(path), number=1, repeat=5)) < 0.02


def test_allowed_cuda_names_are_functions_of_cuda() -> None:
    assert len(set(ALLOWED_CUDA)) == len(ALLOWED_CUDA)
    assert all(name.startswith(("cuda", "__cuda", "cu")) for name in ALLOWED_CUDA)


def test_a_broken_harness_is_no_verdict(tmp_path: Path) -> None:
    (tmp_path / "text.so").write_text("not an object")
    with pytest.raises(KernelBlasterError, match=r"text\.so"):
        screen_binary(tmp_path / "text.so")
