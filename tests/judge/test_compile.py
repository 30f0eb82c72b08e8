from pathlib import Path

import pytest

from kernelblaster.errors import KernelBlasterError, NoCompiler
from kernelblaster.judge.compile import Binary, compile_candidate, parse_resources
from kernelblaster.judge.sweep import tunables, variants
from kernelblaster.records import Candidate, CompileFailed, Fitness, Rejected, Task, TimedOut
from kernelblaster.tasks.catalog import load_task

EXAMPLE = Path(__file__).parents[2] / "examples" / "softmax.cu"
GOOD = """
__global__ void kernel(float* out) { out[0] = 1; }
extern "C" void launch_gpu_implementation(float* out, const float* x, int64_t x_0, int64_t x_1,
                                          cudaStream_t stream) {
  kernel<<<1, 32, 0, stream>>>(out);
}
"""


@pytest.fixture(scope="module")
def softmax() -> Task:
    return load_task("core/level1/softmax")


def test_the_example_compiles_and_the_second_time_comes_from_the_cache(compiler: str, softmax: Task) -> None:
    candidate = Candidate(source=EXAMPLE.read_text() + "// seen nowhere else\n")
    first = compile_candidate(softmax, candidate, "sm_90a")
    again = compile_candidate(softmax, candidate, "sm_90a")
    assert isinstance(first, Binary) and isinstance(again, Binary)
    assert not first.compilation.cached and again.compilation.cached
    (resources,) = first.compilation.resources
    assert resources.registers > 8 and resources.shared_bytes > 0 and resources.spill_store_bytes == 0


def test_what_did_not_compile_fails_the_same_way_again(
    softmax: Task, monkeypatch: pytest.MonkeyPatch, compiler: str
) -> None:
    monkeypatch.setattr("kernelblaster.judge.compile.run_leashed", lambda *_, **__: (1, "x.cu(1): error: no"))
    candidate = Candidate(source=GOOD + "// broken, so to say\n")
    found = [compile_candidate(softmax, candidate, "sm_90a") for _ in range(2)]
    assert isinstance(found[0], CompileFailed) and found[0] == found[1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("const float* x,", "const double* x,"), "launch_gpu_implementation"),
        (("int64_t x_0, ", ""), "launch_gpu_implementation"),
        (("out[0] = 1;", "out[0] = ;"), "expected an expression"),
        (("launch_gpu_implementation", "launch"), ""),
    ],
)
def test_sources_that_do_not_compile(
    compiler: str, softmax: Task, change: tuple[str, str], message: str
) -> None:
    built = compile_candidate(softmax, Candidate(source=GOOD.replace(*change)), "sm_90a")
    assert isinstance(built, CompileFailed | Rejected)
    assert message in (built.log if isinstance(built, CompileFailed) else built.evidence)


def test_forbidden_sources_are_not_even_compiled(compiler: str, softmax: Task) -> None:
    built = compile_candidate(softmax, Candidate(source="#include <thread>\n" + GOOD), "sm_90a")
    assert isinstance(built, Rejected) and "thread" in built.evidence


def test_defines_and_the_standard_library_reach_the_compiler(compiler: str, softmax: Task) -> None:
    source = GOOD.replace("out[0] = 1", "out[0] = VALUE").replace(
        "<<<1,", "<<<std::min(2, int(std::beta(1, 1))),"
    )
    assert isinstance(compile_candidate(softmax, Candidate(source=source), "sm_90a"), CompileFailed)
    chosen = Candidate(source=source).with_defines({"VALUE": 3})
    assert isinstance(compile_candidate(softmax, chosen, "sm_90a"), Binary)


def test_a_compiler_that_does_not_end(compiler: str, softmax: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNELBLASTER_COMPILE_LIMIT", "0.05")
    built = compile_candidate(softmax, Candidate(source=GOOD + "// slow\n"), "sm_90a")
    assert isinstance(built, TimedOut) and built.stage == "compile"


def test_a_cache_that_cannot_be_written(
    compiler: str, softmax: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KERNELBLASTER_CACHE", "/proc/nowhere")
    with pytest.raises(KernelBlasterError, match="KERNELBLASTER_CACHE"):
        compile_candidate(softmax, Candidate(source=GOOD + "// elsewhere\n"), "sm_90a")


def test_no_compiler_says_how_to_get_one(monkeypatch: pytest.MonkeyPatch) -> None:
    from kernelblaster.devices.toolchain import toolchain

    toolchain.cache_clear()
    monkeypatch.setenv("KERNELBLASTER_NVCC", "/nonexistent/nvcc")
    with pytest.raises(NoCompiler, match="pip install"):
        toolchain()
    toolchain.cache_clear()


@pytest.mark.parametrize("text", ["\x00garbage\x01", "#!/bin/sh\nexit 3\n"])
def test_a_broken_compiler_is_said_to_be_one(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kernelblaster.devices.toolchain import toolchain
    from kernelblaster.doctor import _compiler
    from kernelblaster.readiness import readiness_of

    (tmp_path / "nvcc").write_text(text)
    (tmp_path / "nvcc").chmod(0o755)
    monkeypatch.setenv("KERNELBLASTER_NVCC", str(tmp_path / "nvcc"))
    toolchain.cache_clear()
    with pytest.raises(NoCompiler, match=r"nvcc (cannot be run|--version failed)"):
        toolchain()
    assert _compiler().state == "missing"
    task = load_task("core/level1/softmax")
    verbs = {verb.verb: verb.why or "" for verb in readiness_of(task, Fitness())}
    assert all(
        "nvcc" in verbs[name] for name in ("evaluate", "optimize", "optimize --device emulated", "bench")
    )
    assert not verbs["export --format cu"]
    toolchain.cache_clear()


def test_tunables_are_found_and_combined() -> None:
    source = "// kernelblaster-tune: BLOCK = 128, 256\n// kernelblaster-tune: ROWS = 1,2,4\n"
    assert [t.name for t in tunables(source)] == ["BLOCK", "ROWS"]
    found = variants(Candidate(source=source))
    assert len(found) == 6
    assert found[0].defines == (("BLOCK", 128), ("ROWS", 1))
    assert variants(Candidate(source="")) == [Candidate(source="")]


def test_too_many_combinations_are_refused() -> None:
    values = ", ".join(str(n) for n in range(9))
    source = f"// kernelblaster-tune: A = {values}\n// kernelblaster-tune: B = {values}\n"
    with pytest.raises(KernelBlasterError, match="81 combinations"):
        variants(Candidate(source=source))


def test_ptxas_reports_are_read() -> None:
    log = (
        "ptxas info    : Compiling entry function '_Z1kPf' for 'sm_90a'\n"
        "ptxas info    : Function properties for _Z1kPf\n"
        "    16 bytes stack frame, 8 bytes spill stores, 4 bytes spill loads\n"
        "ptxas info    : Used 40 registers, used 1 barriers, 16 bytes cumulative stack size, "
        "2048 bytes smem, 400 bytes cmem[0]\n"
    )
    (found,) = parse_resources(log)
    assert (found.registers, found.shared_bytes, found.barriers) == (40, 2048, 1)
    assert (found.stack_bytes, found.spill_store_bytes, found.spill_load_bytes) == (16, 8, 4)
