"""A user's own `.cu` as a task: what it does not declare is inferred, or asked for in one sentence."""

from pathlib import Path

import pytest

from kernelblaster.errors import BadTask
from kernelblaster.judge.emulate import small_workload
from kernelblaster.records import Candidate
from kernelblaster.tasks.catalog import load_file, load_task
from kernelblaster.tasks.cuda_prepare import fitted, inferred_lines
from kernelblaster.tasks.floor import floor_of

OWN = Path(__file__).parents[2] / "benchmarks" / "own_cu"
SHAPES = {
    "conv1d": {"result": ("n",), "signal": ("n",), "filter": ("ksize",)},
    "gemm_naive": {"C": ("M", "N"), "A": ("M", "K"), "B": ("K", "N")},
    "gemm_tiled": {"c": ("m", "n"), "a": ("m", "k"), "b": ("k", "n")},
    "histogram": {"counts": ("num_bins",), "values": ("n",)},
    "layernorm": {"out": ("N", "C"), "inp": ("N", "C"), "weight": ("C",), "bias": ("C",)},
    "prefix_sum": {"y": ("rows", "cols"), "x": ("rows", "cols")},
    "reduce_atomic": {"total": (), "data": ("n",)},
    "softmax_row": {"y": ("rows", "cols"), "x": ("rows", "cols")},
    "stencil": {"next": ("ny", "nx"), "cur": ("ny", "nx")},
    "dynamic_shared": {"out": ("rows", "cols"), "in": ("rows", "cols"), "gain": ("cols",)},
    "float4_add": {"c": ("n4", "lanes4"), "a": ("n4", "lanes4"), "b": ("n4", "lanes4")},
    "shared_histogram": {"bins": ("bins_count",), "pixels": ("n",)},
    "template_unary": {"y": ("n",), "x": ("n",)},
    "transpose": {"out": ("cols", "rows"), "in": ("rows", "cols")},
}
SCALE = """
__global__ void scale(float* y, const float* x, long n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2 * x[i];
}
"""
LAUNCH = "scale<<<(n + 255) / 256, 256, 0, stream>>>(y, x, n);"


def written(folder: Path, text: str) -> str:
    (folder / "own.cu").write_text(text)
    return str(folder / "own.cu")


@pytest.mark.parametrize("name", SHAPES)
def test_tensors_are_read_off_the_indices(name: str) -> None:
    task = load_task(str(OWN / f"{name}.cu"))
    assert {tensor.name: tensor.dims for tensor in task.signature.tensors} == SHAPES[name]
    assert task.kind == "cuda" and inferred_lines(task.source)
    assert 'extern "C" void launch_gpu_implementation(' in task.source


def test_a_prepared_source_is_its_own_preparation(tmp_path: Path) -> None:
    task = load_task(str(OWN / "gemm_naive.cu"))
    again = load_task(written(tmp_path, task.source))
    assert again.source == task.source and again.signature == task.signature


def test_what_cannot_be_inferred_is_asked_for_with_a_template(tmp_path: Path) -> None:
    with pytest.raises(BadTask, match="does not show the sizes or values of a; add these lines") as asked:
        load_task(str(OWN / "saxpy.cu"))
    template = str(asked.value).partition("\n\n")[2]
    assert "// input: y_before float32 [n] normal\n// value: a = ?" in template
    filled = template.replace("?", "2.5") + "\n" + (OWN / "saxpy.cu").read_text()
    task = load_task(written(tmp_path, filled))
    assert "cudaMemcpyAsync(y, y_before, n * sizeof(float), cudaMemcpyDeviceToDevice, stream);" in task.source
    assert "saxpy((int)n, (float)2.5, x, y, stream);" in task.source
    assert (
        "<<<(n + 255) / 256, 256, 0, stream>>>" in task.source and "cudaStream_t stream = 0)" in task.source
    )
    with pytest.raises(BadTask, match=r"values of table, ids; add") as asked:
        load_task(str(OWN / "gather.cu"))
    assert "// input: ids int64 [count] below ?" in str(asked.value)


def test_a_launch_function_of_the_judge_s_is_left_alone(tmp_path: Path) -> None:
    text = SCALE.replace("long n", "int64_t n") + (
        'extern "C" void launch_gpu_implementation('
        "float* y, const float* x, int64_t n, cudaStream_t stream) {\n"
        f"  {LAUNCH}\n}}\n"
    )
    task = load_task(written(tmp_path, text))
    assert task.source.endswith(text)
    other = text.replace("int64_t", "int")  # the same name with another signature is called by ours
    assert "own_launch(y, x, (int)n, stream);" in load_task(written(tmp_path, other)).source


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        (
            "",
            r"no function launches the kernel scale; add one, for example:\n\nvoid launch\(float\* y, const",
        ),
        ("int main() {}", r"has a main\(\); keep the kernels"),
        (f"void a(float* y) {{ {LAUNCH} }} void b(float* y) {{ {LAUNCH} }}", "a and b both launch kernels"),
        (
            f"void a(float* h, long n) {{ float *x, *y; cudaMalloc(&x, n); {LAUNCH} }}",
            r"a allocates or copies host memory; give a function in its place .*\n\nvoid launch\(",
        ),
        (
            f"void a(float** y, long n) {{ {LAUNCH} }}",
            r"y points to float\*, which is no .* let a take a pointer",
        ),
        (
            f"torch::Tensor a(torch::Tensor x, torch::Tensor y, long n) {{ {LAUNCH} return y; }}",
            r"a takes tensors of PyTorch; keep the kernels in a file .*\n\nvoid launch\(",
        ),
    ],
)
def test_what_stands_in_the_way_is_said_in_a_sentence(more: str, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(BadTask, match=sentence):
        load_task(written(tmp_path, SCALE + more))


def test_vectors_and_a_single_instantiation_are_cast(tmp_path: Path) -> None:
    task = load_task(str(OWN / "float4_add.cu"))
    assert "add_vectors((const float4*)a, (const float4*)b, (float4*)c, (int)n4, stream);" in task.source
    assert "map_gelu(y, x, (int)n, stream);" in load_task(str(OWN / "template_unary.cu")).source
    both = (OWN / "template_unary.cu").read_text() + "void more(int* y) { map_gelu<int>(y, y, 1, 0); }\n"
    with pytest.raises(BadTask, match="y points to T, which is no type of a tensor; let map_gelu take"):
        load_task(written(tmp_path, both))
    with pytest.raises(BadTask, match=r"// output: y float16 \[\?\]\n// input: x float16 \[\?\] normal"):
        load_task(str(OWN / "half2_scale.cu"))  # through reinterpret_cast


@pytest.mark.parametrize(
    ("waits", "left"),
    [
        ("cudaDeviceSynchronize();", "\n"),
        ("CHECK(cudaDeviceSynchronize());", "CHECK(cudaSuccess);"),
        ("cudaError_t e = cudaDeviceSynchronize(); CHECK(e);", "cudaError_t e = cudaSuccess; CHECK(e);"),
        ("if (cudaDeviceSynchronize() != cudaSuccess) return;", "if (cudaSuccess != cudaSuccess) return;"),
    ],
)
def test_waiting_for_the_device_is_left_out_wherever_it_stands(waits: str, left: str, tmp_path: Path) -> None:
    own = "void a(float* y, const float* x, long n) {\n"
    launch = LAUNCH.replace(", 0, stream", "")
    source = load_task(written(tmp_path, f"{SCALE}{own}{launch}\n{waits}\n}}\n")).source
    assert "cudaDeviceSynchronize" not in source and left in source
    assert "CHECK;" not in source and "(n + 255) / 256, 256, 0, stream>>>" in source


def test_inputs_need_no_const(tmp_path: Path) -> None:
    text = (
        SCALE.replace("const ", "")
        + f"void go(float* x, float* y, long n, cudaStream_t stream) {{ {LAUNCH} }}"
    )
    task = load_task(written(tmp_path, text))
    assert [t.name for t in task.signature.outputs] == [
        "y"
    ] and "go((float*)x, y, (long)n, stream)" in task.source


def test_a_file_without_a_kernel_is_no_task(tmp_path: Path) -> None:
    with pytest.raises(BadTask, match="has no kernel"):
        load_task(written(tmp_path, "int x;\n"))


def test_the_own_file_is_a_candidate_too() -> None:
    path = OWN / "gemm_tiled.cu"
    task = load_file("gemm", path)
    own = fitted(Candidate(source=path.read_text(), origin=str(path)), task)
    assert task.source.endswith(own.source)
    assert fitted(Candidate(source=task.source), task).source == task.source


def test_a_table_counts_as_far_as_it_is_looked_up(tmp_path: Path) -> None:
    declared = "// size: rows = 50000, small 50\n// size: count = 2048\n// size: dim = 512\n"
    declared += "// input: table float32 [rows, dim]\n// input: ids int64 [count] below rows\n"
    declared += "// output: out float32 [count, dim]\n"
    task = load_task(written(tmp_path, declared + (OWN / "gather.cu").read_text()))
    assert floor_of(task).bytes == 2048 * (8 + 2 * 512 * 4)


def test_a_fixed_size_may_have_a_small_value_of_its_own(tmp_path: Path) -> None:
    tensors = "// output: y float32 [n]\n// input: x float32 [n]\n" + SCALE
    text = tensors + f"void go(float* y, const float* x, long n, cudaStream_t stream) {{ {LAUNCH} }}"
    task = load_task(written(tmp_path, "// size: n = 4194304, small 1024, fixed\n" + text))
    assert task.small is not None and task.small.sizes == {"n": 1024}
    assert {workload.sizes["n"] for workload in task.workloads} == {1024, 4194304}
    large = load_task(written(tmp_path, "// size: n = 4194304, fixed\n" + text))
    with pytest.raises(BadTask, match="end each `// size:` line with a small value"):
        small_workload(large)
