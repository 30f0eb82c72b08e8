"""The user's own kernel, which runs in another process, begins when the values that it reads are written."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from kernelblaster.devices.device import CallReport, TimeReport
from kernelblaster.judge import baseline as baseline_module
from kernelblaster.judge.baseline import KernelBaseline
from kernelblaster.tasks.catalog import load_task

OWN = Path(__file__).parents[2] / "benchmarks" / "own_cu" / "float4_add.cu"


@pytest.mark.parametrize("way", ["outputs", "timed"])
def test_own_kernel_starts_after_pending_writes(way, monkeypatch):
    order = []
    called = CallReport("", (), 0, ())
    runner = SimpleNamespace(
        call=lambda *_, **__: order.append("kernel") or called,
        time=lambda *_: order.append("kernel") or TimeReport(called, 1.0, 1.0, 1.0, 1.0, 1.0),
    )
    monkeypatch.setattr(baseline_module, "synchronize", lambda _: order.append("wait"), raising=False)
    task = load_task(str(OWN))
    baseline = KernelBaseline(task, SimpleNamespace(torch_device=torch.device("cpu")), OWN)
    baseline._runner = runner
    layout = SimpleNamespace(arguments=lambda *_: (), view=lambda _: torch.zeros(1))
    getattr(baseline, way)(layout)
    assert order == ["wait", "kernel"]
