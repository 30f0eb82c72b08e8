"""Kernels that are right for a task's own values and sizes and for no others: each must be refused, and its
honest twin must pass. On the emulated device; one thread a row, so that every kernel is a few lines."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kernelblaster.devices.emulated import EmulatedDevice
from kernelblaster.judge.judge import DeviceJudge
from kernelblaster.records import Candidate, Incorrect, Task, Verification
from kernelblaster.tasks.catalog import load_task

FILE = """
import torch, torch.nn as nn
rows = 512
cols = 3000
SMALL = {{"rows": 5, "cols": 150}}
class Model(nn.Module):
    def forward(self, {names}):
        return {result}
def get_inputs():
    return [{inputs}]
def get_init_inputs():
    return []
"""
TASKS = {
    "softmax": ("x, alpha", "torch.softmax(x * alpha, 1)", "torch.randn(rows, cols), 0.75"),
    "norm": (
        "x",
        "(x - x.mean(1, keepdim=True)) * torch.rsqrt(x.var(1, keepdim=True, correction=0) + 1e-5)",
        "torch.randn(rows, cols)",
    ),
    "unit": ("x", "torch.nn.functional.normalize(x, dim=1)", "torch.randn(rows, cols)"),
    "abs": ("x", "x.abs()", "torch.rand(rows, cols)"),
    "relu": ("x", "x.relu()", "torch.randn(rows, cols)"),
    "pick": (
        "x, index",
        "torch.nn.functional.nll_loss(x, index, reduction='none')",
        "torch.randn(rows, cols), torch.randint(0, cols, (rows,))",
    ),
}
KERNEL = """
__global__ void by_row(float* out, const float* x, {typed}int64_t rows, int64_t cols) {{
  const int64_t row = blockIdx.x * 32ll + threadIdx.x;
  if (row >= rows) return;
  x += row * cols;
  {body}
}}
extern "C" void launch_gpu_implementation(float* out, const float* x, {typed}int64_t rows, int64_t cols,
                                          cudaStream_t stream) {{
  by_row<<<(unsigned)((rows + 31) / 32), 32, 0, stream>>>(out, x, {plain}rows, cols);
}}
"""
TYPED = {"softmax": ("double alpha, ", "alpha, "), "pick": ("const int64_t* index, ", "index, ")}
EACH = "out += row * cols; for (int64_t c = 0; c < cols; ++c) out[c] = {};"
SOFTMAX = """out += row * cols;
  const float scale = {scale};
  float top = -INFINITY, sum = 0;
  for (int64_t c = 0; c < {known}; ++c) top = fmaxf(top, x[c] * scale);
  for (int64_t c = 0; c < {length}; ++c) sum += expf(x[c] * scale - top);
  for (int64_t c = 0; c < cols; ++c) out[c] = expf(x[c] * scale - top) / sum;"""
NORM = """out += row * cols;
  float about = 0, sum = 0, squares = 0;
  for (int64_t c = 0; c < {known}; ++c) about += x[c];
  about /= {known};
  for (int64_t c = 0; c < cols; ++c) sum += x[c] - about, squares += (x[c] - about) * (x[c] - about);
  const float mean = about + sum / cols, variance = squares / cols - sum / cols * (sum / cols);
  for (int64_t c = 0; c < cols; ++c) out[c] = (x[c] - mean) * rsqrtf(fmaxf(variance, 0) + 1e-5f);"""
UNIT = """out += row * cols;
  float squares = 0;
  for (int64_t c = 0; c < cols; ++c) squares += x[c] * x[c];
  for (int64_t c = 0; c < cols; ++c) out[c] = {};"""
HONEST = {
    "softmax": SOFTMAX.format(scale="(float)alpha", known="cols", length="cols"),
    "norm": NORM.format(known="cols"),
    "unit": UNIT.format("x[c] / fmaxf(sqrtf(squares), 1e-12f)"),
    "pick": "out[row] = -x[index[row]];",
}
WRONG = {
    "a scalar ignored": ("softmax", SOFTMAX.format(scale="0.75f", known="cols", length="cols")),
    "the maximum of a row's beginning": (
        "softmax",
        SOFTMAX.format(scale="(float)alpha", known="(cols < 32 ? cols : 32)", length="cols"),
    ),
    "the longest row assumed": (
        "softmax",
        SOFTMAX.format(scale="(float)alpha", known="cols", length="(cols < 150 ? cols : 150)"),
    ),
    "no case for a row of zeros": ("unit", UNIT.format("x[c] * rsqrtf(squares)")),
    "no tiny norms": ("unit", UNIT.format("x[c] / sqrtf(squares + 1e-12f)")),
    "never negative": ("abs", EACH.format("x[c]")),
    "half precision's range": ("abs", EACH.format("fminf(fabsf(x[c]), 65504.f)")),
    "no NaN": ("relu", EACH.format("fmaxf(x[c], 0.f)")),
    "never the last index": ("pick", "out[row] = -x[index[row] < cols - 1 ? index[row] : 0];"),
}


@pytest.fixture(scope="module")
def judge(compiler: str) -> Iterator[DeviceJudge]:
    device = EmulatedDevice()
    opened = DeviceJudge(device)
    yield opened
    opened.close()
    device.close()


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Task]:
    folder: Path = tmp_path_factory.mktemp("tasks")
    found = {}
    for name, (names, result, inputs) in TASKS.items():
        path = folder / f"{name}.py"
        text = FILE.format(names=names, result=result, inputs=inputs)
        if name == "norm":  # in short rows, a wrong centre does no harm
            text = text.replace('"rows": 5, "cols": 150', '"rows": 3, "cols": 700')
        path.write_text(text)
        found[name] = load_task(str(path))
    return found


def candidate(name: str, body: str) -> Candidate:
    typed, plain = TYPED.get(name, ("", ""))
    return Candidate(source=KERNEL.format(typed=typed, plain=plain, body=body))


@pytest.mark.parametrize("name", HONEST)
def test_honest_kernels_pass(judge: DeviceJudge, tasks: dict[str, Task], name: str) -> None:
    outcome = judge.check(tasks[name], candidate(name, HONEST[name])).outcome
    assert isinstance(outcome, Verification), outcome


@pytest.mark.parametrize("hole", WRONG)
def test_kernels_for_some_values_or_sizes_are_refused(
    judge: DeviceJudge, tasks: dict[str, Task], hole: str
) -> None:
    """What a plan holds is drawn: one of three must do."""
    name, body = WRONG[hole]
    outcomes = (judge.check(tasks[name], candidate(name, body)).outcome for _ in range(3))
    assert any(isinstance(outcome, Incorrect) for outcome in outcomes)


MANY_ROWS = """
import torch, torch.nn as nn
rows = 8192
cols = 64
SMALL = {"rows": 5, "cols": 33}
class Model(nn.Module):
    def forward(self, x):
        return x.amax(1)
def get_inputs():
    return [torch.randn(rows, cols)]
def get_init_inputs():
    return []
"""
BLOCK_A_ROW = """
__global__ void largest(float* out, const float* x, int64_t cols) {
  float top = -INFINITY;
  for (int64_t c = threadIdx.x; c < cols; c += 32) {
    const float v = x[blockIdx.x * cols + c];
    top = v > top || v != v ? v : top;
  }
  for (int lane = 16; lane > 0; lane /= 2) {
    const float v = __shfl_xor_sync(~0u, top, lane);
    top = v > top || v != v ? v : top;
  }
  if (threadIdx.x == 0) out[blockIdx.x] = top;
}
extern "C" void launch_gpu_implementation(float* out, const float* x, int64_t rows, int64_t cols,
                                          cudaStream_t stream) {
  largest<<<(unsigned)ROWS, 32, 0, stream>>>(out, x, cols);
}
"""


def test_rows_beyond_the_primary_ones_are_run_with_a_warp_for_each(
    judge: DeviceJudge, tmp_path: Path
) -> None:
    (tmp_path / "rows.py").write_text(MANY_ROWS)
    task = load_task(str(tmp_path / "rows.py"))
    honest = judge.check(task, Candidate(source=BLOCK_A_ROW.replace("ROWS", "rows"))).outcome
    assert isinstance(honest, Verification) and not honest.notes, honest
    few = BLOCK_A_ROW.replace("ROWS", "(rows < 8192 ? rows : 8192)")
    assert isinstance(judge.check(task, Candidate(source=few)).outcome, Incorrect)


def test_sizes_that_were_not_run_are_told(
    judge: DeviceJudge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(EmulatedDevice, "most_threads", 1 << 17)
    (tmp_path / "rows.py").write_text(MANY_ROWS)
    honest = judge.check(
        load_task(str(tmp_path / "rows.py")), Candidate(source=BLOCK_A_ROW.replace("ROWS", "rows"))
    )
    assert isinstance(honest.outcome, Verification) and "too many threads" in honest.outcome.notes[0]
