"""The user's own kernel, which runs in another process, begins when the values that it reads are written."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from kernelblaster.devices.device import CallReport, TimeReport
from kernelblaster.errors import BadTask
from kernelblaster.judge import baseline as baseline_module
from kernelblaster.judge.baseline import KernelBaseline, ModuleBaseline
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


def test_a_module_that_refuses_values_is_refused_in_a_sentence(tmp_path):
    path = tmp_path / "ordered.py"
    path.write_text(
        "import torch\n"
        "class Model(torch.nn.Module):\n    def forward(self, x, order):\n        return x[order]\n"
        "def get_inputs():\n    return [torch.randn(40, 30), torch.randint(0, 40, (50,))]\n"
        "def get_init_inputs():\n    return []\n"
    )
    baseline = ModuleBaseline(load_task(str(path)), SimpleNamespace(torch_device=torch.device("cpu")))
    with pytest.raises(BadTask, match=r"shapes \(40, 30\), \(50,\), but not these values: IndexError: "):
        baseline.computed([torch.randn(40, 30), torch.full((50,), 99)], [])
