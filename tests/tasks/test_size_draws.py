import time
from pathlib import Path
from random import Random

import pytest

from kernelblaster.records import Task
from kernelblaster.tasks.catalog import load_task
from kernelblaster.tasks.size_draws import (
    LARGEST_EXTRA_BYTES,
    LARGEST_SHARE,
    MOST_OCTAVES,
    POOL,
    TILE,
    SizeDraws,
)

UNHURRIED_S = 600.0  # a busy machine draws the same
FILE = """
import torch, torch.nn as nn
rows = 4096
cols = 8192
SMALL = {"rows": 6, "cols": 70}
class Model(nn.Module):
    def forward(self, x, y):
        return (x + y).view(x.shape[0], -1, 2).sum(2)
def get_inputs():
    return [torch.randn(rows, cols), torch.randn(rows, cols)]
def get_init_inputs():
    return []
"""
CUDA = """
// kernelblaster-task
// size: rows = 8192, small 7
// size: cols = 4096, fixed
// output: out float32 [rows, cols]
// input: x float32 [rows, cols] normal
"""


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Task:
    path: Path = tmp_path_factory.mktemp("task") / "pairs.py"
    path.write_text(FILE)
    return load_task(str(path))


@pytest.fixture(scope="module")
def copying(tmp_path_factory: pytest.TempPathFactory) -> Task:
    path: Path = tmp_path_factory.mktemp("task") / "copy.cu"
    path.write_text(CUDA)
    return load_task(str(path))


@pytest.fixture(scope="module")
def draws(task: Task) -> SizeDraws:
    return SizeDraws(task, limit_s=UNHURRIED_S, rng=Random(3))


def test_draws_lie_below_beside_and_above(task: Task, draws: SizeDraws) -> None:
    assert POOL // 2 <= len(draws.draws) <= POOL + MOST_OCTAVES
    base = task.primary.sizes
    names = {draw.workload.name for draw in draws.draws}
    assert names == {"below", "beside", "above"}
    for workload in draws.of("above", "long"):
        assert any(workload.sizes[name] > base[name] for name in ("x_0", "x_1"))
    for workload in draws.of("few"):
        assert all(workload.sizes[name] <= base[name] for name in ("x_0", "x_1"))
    for name in ("x_0", "x_1"):
        octaves = {workload.sizes[name].bit_length() for workload in draws.of("few")}
        assert octaves >= set(range(3, base[name].bit_length()))
    assert any(min(w.sizes["x_0"], w.sizes["x_1"]) <= 3 for w in draws.of("edge"))


def test_draws_are_what_the_module_takes(draws: SizeDraws) -> None:
    """Columns come in pairs, and the derived size follows."""
    for draw in draws.draws:
        sizes = draw.workload.sizes
        assert sizes["x_1"] % 2 == 0 and sizes["out_1"] == sizes["x_1"] // 2


def test_draws_fit_into_memory(task: Task, draws: SizeDraws) -> None:
    most = task.primary.total_bytes(task.signature) * LARGEST_SHARE + LARGEST_EXTRA_BYTES
    assert all(draw.workload.total_bytes(task.signature) <= most for draw in draws.draws)
    for tensor in task.signature.tensors:
        assert draws.largest_bytes(tensor) >= max(d.workload.bytes(tensor) for d in draws.draws)
        assert draws.largest_bytes(tensor) >= task.primary.bytes(tensor)


def test_all_but_the_first_are_enlarged_in_steps_that_the_module_takes(task: Task, draws: SizeDraws) -> None:
    rows, columns = (size.name for size in task.signature.sizes if size.kind == "free")
    found = draws.apart([rows, columns])
    assert found is not None
    assert (found.sizes[rows], found.sizes[columns]) == (4096, 8192 + 13 * 2)


def test_nobody_can_foretell_them(copying: Task) -> None:
    one, other = SizeDraws(copying), SizeDraws(copying)
    assert [d.workload.sizes for d in one.draws] != [d.workload.sizes for d in other.draws]


def test_small_draws_belong_to_the_small_construction(task: Task) -> None:
    draws = SizeDraws(task, small=True, most_bytes=1 << 20, limit_s=UNHURRIED_S, rng=Random(6)).draws
    assert draws and all(draw.workload.module == "small" for draw in draws)
    assert max(draw.workload.sizes["x_1"] for draw in draws) > 70


def test_cuda_tasks_draw_their_free_sizes(copying: Task) -> None:
    draws = SizeDraws(copying, rng=Random(7)).draws
    assert {draw.workload.sizes["cols"] for draw in draws} == {4096}
    assert any(draw.workload.sizes["rows"] > 8192 for draw in draws)


def test_a_busy_machine_draws_as_many(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock goes forty times as fast as this thread works: others keep the processors busy."""
    clock = time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: 40 * clock())
    hurried = SizeDraws(task, small=True, rng=Random(3))
    assert len(hurried.draws) >= POOL and not hurried.cut_short


def test_a_pool_that_was_cut_short_says_so(task: Task) -> None:
    hurried = SizeDraws(task, limit_s=0.0, rng=Random(3))
    assert hurried.draws == () and hurried.cut_short


def test_tiled_draws_are_multiples_of_a_tile_in_every_size() -> None:
    """They are reduced to what the emulator can bear, and stay what they are."""
    rows = load_task(str(Path(__file__).parents[1] / "exploits" / "tasks" / "rms_norm.py"))
    for seed in range(12):
        draws = SizeDraws(rows, small=True, limit_s=UNHURRIED_S, rng=Random(seed))
        tiled = [workload.sizes for workload in draws.of("tiled")]
        assert tiled
        assert all(extent % TILE == 0 for sizes in tiled for extent in sizes.values())
