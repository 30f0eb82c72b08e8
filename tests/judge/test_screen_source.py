"""What the source stage refuses, what it must let through, and that nothing hides from it."""

import shutil
import subprocess
import time
import timeit

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kernelblaster.judge.screen_source import LARGEST_SOURCE, ScreenFinding, screen_source

LAUNCH = 'extern "C" void launch_gpu_implementation(float* out, int64_t n, cudaStream_t stream)'


def rules(source: str) -> set[str]:
    return {finding.rule for finding in screen_source(source)}


FORBIDDEN = [
    # includes
    ("forbidden-include", "#include <thread>"),
    ("forbidden-include", "#include <iostream>"),
    ("forbidden-include", "#include <unistd.h>"),
    ("forbidden-include", "#include <sys/mman.h>"),
    ("forbidden-include", "#include <torch/extension.h>"),
    ("forbidden-include", "#include <cublas_v2.h>"),
    ("forbidden-include", "#include <thrust/sort.h>"),
    ("forbidden-include", '#include "/etc/passwd"'),
    ("forbidden-include", '#include "softmax.h"'),
    ("forbidden-include", "#include <cuda/../../secret.h>"),
    ("forbidden-include", "#define H <thread>\n#include H"),
    ("forbidden-include", "#inc\\\nlude <thread>"),
    ("forbidden-include", "# /* a */ include /* b\n */ <thread>"),
    ("forbidden-include", "#/*\n*/include <thread>"),
    ("forbidden-include", "#ifdef NEVER\n#include <dlfcn.h>\n#endif"),
    # directives, pragmas, macros
    ("forbidden-directive", "#include_next <cmath>"),
    ("forbidden-directive", '#embed "/etc/passwd"'),
    ("forbidden-directive", '#line 1 "innocent.cu"'),
    ("forbidden-directive", '# 1 "innocent.cu" 3'),
    ("forbidden-directive", "%:include <cmath>"),
    ("forbidden-directive", "#if __has_include(<secret.h>)\n#endif"),
    ("forbidden-pragma", "#pragma weak foo = bar"),
    ("forbidden-pragma", "#pragma redefine_extname foo system"),
    ("forbidden-pragma", '_Pragma("weak foo")'),
    ("forbidden-pragma", "#pragma GCC poison printf"),
    ("forbidden-macro", "#define launch_gpu_implementation other"),
    ("forbidden-macro", "#define __global__"),
    ("forbidden-macro", "#undef __device__"),
    ("forbidden-macro", "#define extern static"),
    ("forbidden-macro", "#define cudaLaunchKernel(...) 0"),
    ("forbidden-macro", "#define cudaStream_t int"),
    ("forbidden-macro", "#define for(x) while (1)"),
    # attributes
    ("forbidden-attribute", "__attribute__((constructor)) void f() {}"),
    ("forbidden-attribute", "void f() __attribute__ (( __destructor__ ));"),
    ("forbidden-attribute", '__attribute__((used, section(".init_array"))) int x = 1;'),
    ("forbidden-attribute", "[[gnu::constructor]] void f() {}"),
    ("forbidden-attribute", '[[gnu::alias("g")]] void f();'),
    ("forbidden-attribute", 'void f() __attribute__((ifunc("r")));'),
    ("forbidden-attribute", '__attribute__((target_clones("avx2", "default"))) void f() {}'),
    # assembly, where the tree is sure
    ("host-assembly", 'void f() { __asm__ volatile("syscall"); }'),
    ("host-assembly", 'void f() { auto g = [] { asm("syscall"); }; }'),
    ("host-assembly", 'void f() { as\\\nm("syscall"); }'),
    ("host-assembly", '__device__ void g() { struct S { void f() { asm("syscall"); } }; }'),
    # foreign functions
    ("foreign-declaration", 'extern "C" int system(const char*);'),
    ("foreign-declaration", 'extern "C" { int ptrace(int); }'),
    ("foreign-declaration", 'extern "C" { extern char** environ; }'),
    ("foreign-declaration", 'extern "C" char** environ;'),
    ("foreign-declaration", 'extern "C" void* dlopen(const char*, int) noexcept;'),
    # calls
    ("forbidden-call", 'void f() { system("ls"); }'),
    ("forbidden-call", 'void f() { std::system("ls"); }'),
    ("forbidden-call", 'void f() { return (void)::getenv("HOME"); }'),
    ("forbidden-call", "void f() { pthread_create(0, 0, 0, 0); }"),
    ("forbidden-call", "void f() { int t = clock(); }"),
    ("forbidden-call", "void f() { std::thread t; }"),
    ("forbidden-call", "void f() { std :: chrono::steady_clock::now(); }"),
    ("forbidden-call", "void f() { void* p; cudaMalloc(&p, 4); }"),
    ("forbidden-call", "void f() { if (true) { for (;;) dlopen(0, 1); } }"),
    ("forbidden-call", "void f(cublasHandle_t* h) { cublasCreate(h); }"),
    # names of others
    ("reserved-name", "void kernelblaster_report(int x) {}"),
    ("reserved-name", "void f() { __cudaRegisterFatBinary(0); }"),
    ("reserved-name", "void f() { stdout->_fileno = 5; }"),
    # text that is not what it seems
    ("misleading-text", "int a; \u202e int b;"),
    ("misleading-text", "int a\u0301;"),
    ("misleading-text", "int a;\r int b;"),
    ("misleading-text", "int a\x00;"),
    ("misleading-text", 'const char* s = R"x(\n)\\\nx" ; asm("syscall"); // )x";'),
    ("misleading-text", 'const char* s = R"(never closed'),
    ("source-size", "x" * (LARGEST_SOURCE + 1)),
]


@pytest.mark.parametrize(("rule", "source"), FORBIDDEN, ids=lambda value: str(value)[:50])
def test_forbidden(rule: str, source: str) -> None:
    assert rule in rules(source)


HONEST = {
    "device assembly": """
        __device__ __forceinline__ unsigned lane() {
            unsigned r; asm("mov.u32 %0, %laneid;" : "=r"(r)); return r;
        }
        template <int N> __global__ void __launch_bounds__(256, 2) k(float* x) {
            auto inner = [&](int i) { asm volatile("bar.sync %0;" ::"r"(i) : "memory"); };
            if (N > 1) { for (int i = 0; i < N; ++i) { inner(i); asm volatile("" ::: "memory"); } }
        }
        struct Tile { __device__ void wait() { __asm__ __volatile__("cp.async.wait_all;"); } };
        namespace a { template <typename T> __device__ inline T f(T v) { asm("nop;"); return v; } }
    """,
    "device assembly behind macros": """
        #define DEVICE __device__ __forceinline__
        #define DEVICE_INLINE DEVICE static
        #define CP_ASYNC(dst, src) \\
            asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" ::"r"(dst), "l"(src))
        DEVICE float ex2(float x) {
            float y; asm("ex2.approx.f32 %0, %1;" : "=f"(y) : "f"(x)); return y;
        }
        DEVICE_INLINE void fence() { asm volatile("fence.proxy.async;"); }
    """,
    "device assembly that the grammar does not know": """
        @@
        __global__ void k(float* x) {
            @@ for (int i = 0; i < 4; ++i) { if (x[i] > 0) { asm volatile("nop;"); } clock(); }
        }
    """,
    "raw string of PTX": """
        __device__ void f() { asm volatile(R"({
            .reg .pred p;  // "quoted"
        })"); }
    """,
    "clocks in device code, words that are only words": """
        struct Timer { int time(int x) { return x; } int clock; };
        __global__ void k(long long* out) { out[0] = clock64(); long long t = clock(); }
        static int read(int x) { return x; }
        int f(Timer timer) { int time = timer.time(3), system = read(2); return time + system; }
        // system("rm"); asm("syscall"); #include <thread>
        const char* text = "asm(syscall) std::thread kernelblaster_ __cudaX \\" /* no comment";
        const char quote = '"', other = '\\'';
        int separated = 1'000'000; float hex = 0x1p-3f;
    """,
    "PTX in functions for host and device, and beside what the grammar does not know": """
        __host__ __device__ float f(float v) {
        #ifdef __CUDA_ARCH__
            asm("ex2.approx.f32 %0, %0;" : "+f"(v)); v += clock();
        #endif
            return v;
        }
        #define RETURNS(type) __device__ type
        #define UNKNOWN(x)
        RETURNS(int) g() { asm("nop;"); return clock(); }
        __global__ void __cluster_dims__(2, 1, 1) k(float* x) { asm volatile("nop;"); clock(); }
        __global__ void UNKNOWN(3) l(float* x) { asm volatile("nop;"); clock(); }
        struct Tile { template <int N> __device__ auto wait() -> int { asm("nop;"); return clock(); } };
    """,
    "callables with unlucky names": """
        #define sleep(x) (x)
        using write = float;
        struct fork { int v; explicit fork(int v) : v(v) {} void kill(int); void go() { kill(3); } };
        void fork::kill(int) {}
        template <typename Time, typename... Open> int f(Time time, Open... open) { return time(open(1)...); }
        template <typename Read> int g(const Read& read, Read&& dup, int (*signal)(int)) {
            return read(1) + dup(2) + signal(3);
        }
        template <template <typename> class system, typename clock> int h() { return clock(system<int>()); }
        template <typename T> int i(T t) { return T::time(t) + Plan<T>::nanosleep(t) + t. gettimeofday(3); }
        int j() {
            auto [socket, connect] = pair();
            auto inner = [raise = socket](auto rand) { return raise(1) + rand(2) + sleep(3) + write(4); };
            for (auto mmap : list) mmap(3);
            if (auto getenv = find()) getenv(4);
            Functor popen(socket), unlink{3};
            return popen(5) + unlink(6) + connect(7) + inner(fork(8));
        }
    """,
    "launch and error checks": f"""
        #include <cstdio>
        #include <cstdlib>
        #include <cuda/barrier>
        #include <cub/block/block_reduce.cuh>
        #include "cuda_pipeline.h"
        #define CHECK(call)                                                      \\
            do {{                                                                 \\
                cudaError_t status = (call);                                     \\
                if (status != cudaSuccess) {{                                     \\
                    fprintf(stderr, "%s\\n", cudaGetErrorString(status)); exit(1); \\
                }}                                                                \\
            }} while (0)
        #define cudaCheck(x) CHECK(x)
        // kernelblaster-tune: BLOCK = 128, 256
        #ifndef BLOCK
        #define BLOCK 256
        #endif
        #pragma unroll 4
        #pragma nv_diag_suppress 177
        #pragma GCC diagnostic ignored "-Wunused"
        extern "C" __global__ void k(float*);
        extern "C" {{ static int table[] = {{1, 2}}; int counter; void helper(float* x); }}
        extern __shared__ float shared[];
        __attribute__((aligned(16))) __device__ float pad[4];
        [[maybe_unused]] static const float weights[] = {{1.f, 2.f}};
        extern "C" void helper(float* x) {{ x[0] = weights[0]; }}
        extern "C" __global__ void k(float* x) {{ x[0] = shared[0]; }}
        {LAUNCH};
        {LAUNCH} {{
            void* scratch;
            CHECK(cudaMallocAsync(&scratch, n, stream));
            k<<<dim3((n + BLOCK - 1) / BLOCK), BLOCK, 0, stream>>>(out);
            CHECK(cudaFreeAsync(scratch, stream));
        }}
    """,
}


@pytest.mark.parametrize("name", HONEST)
def test_honest(name: str) -> None:
    assert screen_source(HONEST[name]) == []


def test_the_printed_declaration_need_not_be_included() -> None:
    (found,) = screen_source('#include "softmax.h"\n')
    assert "the declaration is included for you, remove this line" in found.detail and found.line == 1


def test_a_finding_names_the_text_the_line_and_the_way_out() -> None:
    source = "/* two\nlines */ int a; \\\n  int b;\nvoid f() { void* p;\n  cudaMalloc(&p, 4); }\n"
    detail = "`cudaMalloc` may not be called: use cudaMallocAsync on the given stream."
    assert screen_source(source) == [ScreenFinding("forbidden-call", detail, 5)]


GUILTY = [source for rule, source in FORBIDDEN if rule != "misleading-text" and len(source) < 1000]
# These are said early where the tree is sure, and found after compilation everywhere.
SURE = {source for rule, source in FORBIDDEN if rule in ("host-assembly", "forbidden-call")}


@given(st.sampled_from(GUILTY), st.integers(0, 200), st.sampled_from(["\\\n", "\\ \n", "\\\r\n"]))
def test_joined_lines_hide_nothing(source: str, position: int, joint: str) -> None:
    position %= len(source)
    assume(source[position - 1 : position] != "\\")
    assert rules(source[:position] + joint + source[position:])


@given(
    st.sampled_from([source for source in GUILTY if source not in SURE]),
    st.sampled_from(["{{{", "}}}", "((", "@ ` ?", "template <", "#if 0", "#else"]),
)
def test_noise_around_hides_nothing(source: str, noise: str) -> None:
    assert rules(f"{noise}\n{source}\n{noise}")


@given(st.text(max_size=60))
def test_comments_are_not_judged(words: str) -> None:
    words = words.replace("*/", "").replace("\r", "")
    found = rules(f"int a; /* {words} */ int b;")
    assert found <= {"misleading-text"}  # invisible characters, even there


FRAGMENTS = [
    "__cudaX", " __cudaX ", '"', "'", "/*", "*/", "//", "\\", "\n", 'R"(', ')"', 'u8R"a(', ')a"',
    "x", "1", "1e+", "'a", ".5", "#if 0\n", "#endif\n", "#define A ", "#error don't\n", "<", ">", "\\\n",
    "#include <", "#", "%:", " ", '\\"', "L", "R", "é", "$", "??/\n",
]  # fmt: skip


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++ to compare with")
@settings(max_examples=150)
@given(st.lists(st.sampled_from(FRAGMENTS), max_size=14).map("".join))
def test_what_the_preprocessor_sees_the_screen_sees(source: str) -> None:
    """Whenever g++ sees a forbidden name as a name, there is a finding, however it is wrapped."""
    command = ["g++", "-std=c++17", "-E", "-P", "-w", "-D__cudaX=SEEN", "-x", "c++", "-"]
    done = subprocess.run(command, input=source, capture_output=True, text=True, check=False)
    if done.returncode == 0 and "SEEN" in done.stdout:
        assert rules(source)


SLOW = [
    'R"(', "/*", "asm(", "((((", "{{{{", "clock(", "int clock(", "[[", "std::", "a::", "_Pragma(",
    "1'1", "__attribute__((", "! ", "- ", 'extern "C" a ', 'extern "C" {}', "#x\n", "\\\n", "@ asm {",
    "#define a b\n",
]  # fmt: skip


@pytest.mark.parametrize("unit", SLOW)
def test_no_text_takes_long(unit: str) -> None:
    source = unit * (50_000 // len(unit))
    start = time.perf_counter()
    screen_source(source)
    assert time.perf_counter() - start < 5


def test_an_ordinary_candidate_takes_milliseconds() -> None:
    source = HONEST["launch and error checks"] + HONEST["device assembly"] * 10
    assert min(timeit.repeat(lambda: screen_source(source), number=1, repeat=5)) < 0.06
