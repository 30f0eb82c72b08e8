"""Rewrites of own sources: what each technique makes of a kernel, and that the judge accepts it."""

import difflib
from pathlib import Path

import pytest

from kernelblaster.api import open_searching
from kernelblaster.knowledge.knowledge_base import KnowledgeBase
from kernelblaster.optimize import optimize
from kernelblaster.policies.expert.policy import ExpertPolicy
from kernelblaster.policies.policy import Target
from kernelblaster.policies.rewrites.own_source import OwnSource
from kernelblaster.policies.rewrites.techniques import load_rewrites
from kernelblaster.records.outcome import CORRECT
from kernelblaster.records.recipe import JOINED
from kernelblaster.sessions.settings import Search
from kernelblaster.store.run import create_run
from kernelblaster.tasks.catalog import load_task

OWN = Path(__file__).parents[3] / "benchmarks" / "own_cu"


def changes(name: str, technique: str) -> list[str]:
    """The lines that each rewrite of a shipped file adds, without indents."""
    source = OwnSource((OWN / f"{name}.cu").read_text())
    lines = source.text.splitlines()
    found = []
    for new in load_rewrites()[technique](source):
        compared = difflib.ndiff(lines, new.text.splitlines())
        found.append("\n".join(line[2:].strip() for line in compared if line.startswith("+ ")))
    return found


@pytest.mark.parametrize(
    ("name", "technique", "added"),
    [
        ("reduce_atomic", "block_shape", "#define THREADS 512"),
        ("prefix_sum", "block_shape", "scan_rows<128><<<rows, 128, 0, stream>>>(x, y, rows, cols);"),
        ("saxpy", "block_shape", "saxpy_kernel<<<(n + 127) / 128, 128>>>(n, a, x, y);"),
        ("transpose", "block_shape", "dim3 block(32, 8);\ndim3 grid((cols + 31) / 32, (rows + 7) / 8);"),
        ("gemm_tiled", "tunable_constants", "#define TILE 32"),
        ("gemm_tiled", "bank_conflict_padding", "__shared__ float as[TILE][TILE + 1];\n"),
        ("stencil", "loop_exchange", "dim3 blocks((nx + threads.x - 1) / threads.x, (ny + threads.y - 1)"),
        ("layernorm", "fast_math", "float rstd = rsqrtf(var + 1e-5f);"),
        ("softmax_row", "fast_math", "for (int j = 0; j < cols; j++) sum += __expf(in[j] - m);"),
        ("softmax_row", "unrolling", "#pragma unroll 4\n"),
        ("gemm_naive", "unrolling", "#pragma unroll 4"),
        ("transpose", "cache_hints", "__stcs(&out[x * rows + y], in[y * cols + x]);"),
        ("transpose", "read_only_loads", "(const float *__restrict__ in, float *__restrict__ out, int rows"),
        ("transpose", "read_only_loads", "out[x * rows + y] = __ldg(&in[y * cols + x]);"),
        ("layernorm", "launch_bounds", "__global__ void __launch_bounds__(128) layernorm_kernel("),
        ("conv1d", "grid_stride", "dim3 grid(((n + threads - 1) / threads + 3) / 4);"),
        ("saxpy", "vectorized_memory_access", "y_vector[each] = a * x_vector[each] + y_vector[each];"),
    ],
)
def test_a_technique_rewrites_what_it_recognises(name: str, technique: str, added: str) -> None:
    assert any(added in change for change in changes(name, technique))


@pytest.mark.parametrize(
    ("name", "technique"),
    [
        ("stencil", "fast_math"),  # in double
        ("softmax_row", "vectorized_memory_access"),  # a thread has a whole row
        ("reduce_atomic", "grid_stride"),  # its threads work together
        ("saxpy", "loop_exchange"),  # one dimension
        ("reduce_atomic", "unrolling"),  # a barrier in the loop
    ],
)
def test_what_it_does_not_recognise_stays(name: str, technique: str) -> None:
    assert changes(name, technique) == []


def test_a_vector_is_only_stored_where_every_element_is() -> None:
    kernel = "__global__ void k(float* y, const float* x, int n) {{\n  int i = blockIdx.x * blockDim.x + "
    kernel += "threadIdx.x;\n  if (i >= n) return;\n  {}\n}}\nvoid l(float* y, const float* x, int n) "
    kernel += "{{ k<<<(n + 31) / 32, 32>>>(y, x, n); }}\n"
    vectorized = load_rewrites()["vectorized_memory_access"]
    (whole,) = vectorized(OwnSource(kernel.format("y[i] = x[i];")))
    assert "*(int4*)(y + first)" in whole.text and "*(const int4*)(y + first)" not in whole.text
    (partly,) = vectorized(OwnSource(kernel.format("if (x[i] > 0) y[i] = x[i];")))
    assert "y_vector" not in partly.text and "x_vector[each]" in partly.text


SHIFT = """
// size: n = 4096, small 5
// output: y float32 [n]
// input: x float32 [n] normal
__global__ void shift(float* y, float* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] + 1.0;
}
void go(float* x, float* y, int n) { shift<<<(n + 31) / 32, 32>>>(y, x, n); }
"""


def test_an_own_file_is_made_faster(compiler: str, tmp_path: Path) -> None:
    (tmp_path / "shift.cu").write_text(SHIFT)
    task = load_task(str(tmp_path / "shift.cu"))
    with (
        open_searching("emulated") as judge,
        KnowledgeBase(tmp_path / "kb.db") as knowledge,
        create_run(tmp_path / "runs") as run,
    ):
        found = optimize(task, judge, knowledge, run, Search(evaluations=2, rollouts=1, choices=1))
        taught = {t for entries in knowledge.content().entries.values() for t in entries}
    assert isinstance(found.first.outcome, CORRECT) and found.evaluation.timing is not None
    assert found.evaluation.timing.baseline == "original kernel" and found.evaluation.timing.modelled
    assert len(found.steps) == 1 and all(step.failure is None for step in found.steps)
    assert {step.technique for step in found.steps} <= taught


def test_techniques_follow_each_other_and_make_recipes(tmp_path: Path) -> None:
    task = load_task(str(OWN / "gemm_tiled.cu"))
    policy = ExpertPolicy()
    attempt = policy.initial(task)
    assert attempt.candidate.source == task.source
    target = Target("matmul", 1.0, None)  # type: ignore[arg-type]
    assert {"tunable_constants", "read_only_loads", "unrolling"} <= set(policy.proposals(attempt, target))
    first = next(policy.moves(attempt, "tunable_constants", target))
    second = next(policy.moves(first, "unrolling", target))
    assert "#define TILE 32" in second.candidate.source and "#pragma unroll 4" in second.candidate.source
    recipe = next(
        policy.moves(attempt, JOINED.join(("kernel_fusion", "tunable_constants", "unrolling")), target)
    )
    assert recipe.candidate.source == second.candidate.source
    assert recipe.applied == ("unrolling", "tunable_constants") and recipe.changed == {"matmul"}
