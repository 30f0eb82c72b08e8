import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kernelblaster.devices.cuda import FLUSH_BYTES
from kernelblaster.devices.specs import GpuSpec, gpu_specs
from kernelblaster.errors import BadTask
from kernelblaster.judge.eager_launches import EagerLaunch
from kernelblaster.judge.eager_model import eager_us, kernel_us, rates
from kernelblaster.judge.eager_trace import trace
from kernelblaster.records import Task
from kernelblaster.records.signature import Dtype
from kernelblaster.tasks.catalog import load_task

SUITE = Path(__file__).parents[2] / "results" / "suite.md"
H200 = gpu_specs()["h200"]
MakeTask = Callable[..., Task]

FILE = """
import torch, torch.nn as nn, torch.nn.functional as F
rows, cols = {rows}, {cols}
SMALL = {{"rows": 6, "cols": 8}}
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        {init}
    def forward(self, x):
        return {forward}
def get_inputs():
    return [torch.randn({shape})]
def get_init_inputs():
    return []
"""


@pytest.fixture
def make(tmp_path: Path) -> MakeTask:
    def write(
        forward: str,
        *,
        init: str = "pass",
        rows: int = 16384,
        cols: int = 4096,
        shape: str = "rows, cols",
        dtype: Dtype = "float32",
    ) -> Task:
        path = tmp_path / "task.py"
        path.write_text(FILE.format(forward=forward, init=init, rows=rows, cols=cols, shape=shape))
        return load_task(str(path), dtype)

    return write


def families(task: Task) -> list[str]:
    return [step.family for step in trace(task, task.primary) if step is not None]


def primary_us(task: Task, spec: GpuSpec = H200) -> float:
    return eager_us(task, task.primary, spec)


@pytest.mark.parametrize(
    "name",
    [
        "level1/attention_causal",
        "level1/avg_pool2d",
        "level1/conv2d_depthwise",
        "level1/cumsum",
        "level1/embedding",
        "level1/logsumexp",
        "level1/matmul_tall_skinny",
        "level1/relu",
        "level1/transpose_last",
        "level2/conv_transpose2d_clamp_scale",
        "level2/linear_groupnorm_hardtanh",
        "level2/rmsnorm_rotary",
        "level3/lstm",
        "level3/squeeze_excite",
        "level3/unet_step",
    ],
)
def test_near_what_was_measured(name: str) -> None:
    row = re.search(rf"^\| core/{name} \| yes \| yes \| (\d+) \|", SUITE.read_text(), re.MULTILINE)
    assert row is not None
    assert primary_us(load_task(f"core/{name}")) == pytest.approx(float(row[1]), rel=0.3)


def test_a_simple_kernel_is_its_bytes_over_the_memory_rate(make: MakeTask) -> None:
    bytes_ = 2 * 16384 * 4096 * 4
    least_us = bytes_ / (H200.dram_gb_s * 1e3)
    assert least_us < primary_us(make("torch.relu(x)")) < 1.3 * least_us


def test_nothing_is_allocated_and_it_is_quick(make: MakeTask) -> None:
    task = make("(x @ x.t()).softmax(-1)", rows=1 << 20, cols=1 << 20)
    start = time.perf_counter()
    assert primary_us(task) > 1e9
    assert time.perf_counter() - start < 1


def test_views_cost_nothing_on_the_gpu(make: MakeTask) -> None:
    assert families(make("torch.relu(x.view(-1, 8).t()[2:].unsqueeze(0))")) == ["strided", "transposed"]
    assert families(make("torch.relu(x.unsqueeze(0))")) == ["pointwise"]


def test_how_tensors_lie_decides_the_family(make: MakeTask) -> None:
    assert families(make("x + x[0]")) == ["strided"]
    assert families(make("x.t().contiguous()")) == ["transposed"]
    assert families(make("x * (x > 0)")) == ["pointwise", "strided"]


def test_fused_operators_are_one_launch(make: MakeTask) -> None:
    attend = "F.scaled_dot_product_attention(x, x, x, is_causal={})"
    causal, full = (make(attend.format(c), shape="4, 8, rows, 64", rows=1024) for c in ("True", "False"))
    assert families(causal) == families(full) == ["attention"]
    assert primary_us(full) > 1.5 * primary_us(causal)
    assert families(make("F.rms_norm(x, x.shape[1:])")) == ["layer_norm"]


def test_a_recurrent_layer_takes_its_steps(make: MakeTask) -> None:
    task = make("self.rnn(x)", init="self.rnn = nn.GRU(8, 16, batch_first=True, bidirectional=True)",
                shape="rows, cols, 8", rows=4, cols=20)  # fmt: skip
    launch = trace(task, task.primary)[-1]
    assert launch is not None and launch.family == "recurrent" and launch.steps == 2 * 2 * 20
    assert 80 * rates().launch_us <= primary_us(task)


def test_many_small_operators_wait_for_the_host(make: MakeTask) -> None:
    us = primary_us(make("sum((x + i for i in range(50)), x)", rows=8, cols=8))
    head_start_us = 2 * FLUSH_BYTES / (H200.dram_gb_s * 1e3)
    assert us == pytest.approx(100 * rates().host_us - head_start_us, rel=0.05)


def test_an_operator_that_is_not_known_counts_its_bytes(make: MakeTask) -> None:
    task = make("torch.fft.rfft(x).abs()")
    assert families(task) == ["other", "pointwise"]
    assert primary_us(task) > 16384 * 4096 * 8 / (H200.dram_gb_s * 1e3)


def test_other_gpus_scale_by_their_rates(make: MakeTask) -> None:
    memory, product = make("torch.relu(x)"), make("x @ x.t()", rows=4096)
    a100 = gpu_specs()["a100"]
    assert primary_us(memory, a100) / primary_us(memory) == pytest.approx(4800 / 2039, rel=0.1)
    assert primary_us(product, a100) / primary_us(product) == pytest.approx(66.9 / 19.5, rel=0.1)


def test_half_precision_moves_half_and_multiplies_on_tensor_cores(make: MakeTask) -> None:
    assert primary_us(make("torch.relu(x)")) > 1.8 * primary_us(make("torch.relu(x)", dtype="float16"))
    single = primary_us(make("x @ x.t()", rows=4096))
    assert single > 5 * primary_us(make("x @ x.t()", rows=4096, dtype="float16"))


def test_every_workload_has_a_time_and_smaller_ones_less(make: MakeTask) -> None:
    task = make("self.norm(x)", init="self.norm = nn.LayerNorm(cols)")
    primary = primary_us(task)
    others = [eager_us(task, w, H200) for w in task.workloads if w.name in ("tiny", "small")]
    assert others and all(0 < us < primary for us in others)


def test_long_rows_are_read_again_only_where_the_cache_is_small() -> None:
    launch = EagerLaunch("softmax", 10**9, row_bytes=40_000)
    small = H200.model_copy(update={"l2_mb": 6.0})
    assert kernel_us(launch, small, rates()) > 1.4 * kernel_us(launch, H200, rates())


def test_few_blocks_leave_the_gpu_idle(make: MakeTask) -> None:
    task = make("self.norm(x)", init="self.norm = nn.BatchNorm2d(16)", shape="64, 16, cols, cols", cols=256)
    wide = make(
        "self.norm(x)", init="self.norm = nn.BatchNorm2d(1024)", shape="1, 1024, cols, cols", cols=256
    )
    assert primary_us(task) > 3 * primary_us(wide)


def test_what_cannot_be_followed_is_said_in_a_sentence(make: MakeTask) -> None:
    task = make("torch.relu(x)")
    bad = task.model_copy(update={"source": task.source.replace("torch.relu(x)", "x[x > 0]")})
    with pytest.raises(BadTask, match=r"forward\(\) cannot be followed"):
        primary_us(bad)
    with pytest.raises(BadTask, match="no PyTorch module"):
        primary_us(task.model_copy(update={"kind": "cuda"}))


def test_every_family_has_a_rate() -> None:
    text = Path(__file__).parents[2] / "src" / "kernelblaster" / "judge" / "eager_launches.py"
    named = set(re.findall(r'(?:Launch|_family)\("(\w+)"', text.read_text()))
    assert named <= set(rates().bandwidth) | set(rates().arithmetic)
    assert all(0 < share < 1 for share in [*rates().bandwidth.values(), *rates().arithmetic.values()])
