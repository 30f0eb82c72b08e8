"""A small bench on a real GPU: one owner of the device, several searching processes, all baselines."""

from pathlib import Path

import pytest

from kernelblaster.bench.bench import Bench
from kernelblaster.bench.jobs import INITIAL, Setup
from kernelblaster.bench.record import BenchPlan
from kernelblaster.bench.suite import entries_of
from kernelblaster.devices.cuda import why_no_gpu
from kernelblaster.sessions.settings import Search

pytestmark = pytest.mark.gpu
TASKS = ["core/level1/gelu", "core/level1/softmax", "core/level1/layer_norm"]


def test_tasks_are_searched_and_measured_beside_every_baseline(tmp_path: Path) -> None:
    reason = why_no_gpu()
    if reason:
        pytest.skip(reason)
    setup = Setup(device="cuda", search=Search(evaluations=4), knowledge="")
    plan = BenchPlan(
        suites=tuple(TASKS),
        entries=tuple(entries_of(TASKS)),
        setup=setup,
        baselines=("eager", "compile", "max-autotune"),
    )
    with Bench.open(tmp_path / "bench", plan) as bench:
        bench.run(workers=3)
        rows = bench.rows()
    assert [row.result.status for row in rows] == ["valid"] * 3
    for row in rows:
        assert set(row.measured) == {"eager", "compile", "max-autotune", INITIAL}
        against = [row.speedup(name) for name in ("eager", "compile", "max-autotune")]
        assert row.speedup("best") == min(s for s in against if s is not None)
        assert not row.result.modelled and row.result.spent.device_seconds > 0
