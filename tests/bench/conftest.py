"""A KernelBench checkout with tasks that are good, broken, unfit and uncovered."""

from pathlib import Path

import pytest

HEAD = "import torch, torch.nn as nn\nrows = 512\nSMALL = {'rows': 5}\n"
TAIL = "\ndef get_inputs():\n    return [torch.randn(rows, 256)]\ndef get_init_inputs():\n    return []\n"
BODIES = {
    "level1/1_relu": "        return torch.relu(x) * 2.0 + 1.0",
    "level1/2_broken": "        return (x",
    "level1/3_constant": "        return torch.zeros_like(x)",
    "level1/4_random": "        return torch.rand_like(x)",
    "level2/1_scaled_sum": "        return (x * 3.0).sum(dim=1)",
    "level2/2_uncovered": "        return torch.cumsum(x, dim=1)",
}


@pytest.fixture(scope="session")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("checkout")
    for name, body in BODIES.items():
        file = root / "KernelBench" / f"{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{HEAD}class Model(nn.Module):\n    def forward(self, x):\n{body}\n{TAIL}")
    (root / "KernelBench" / "level2" / "3_not_a_task.py").write_text("print('hello')\n")
    return root
