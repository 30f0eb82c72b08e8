"""A KernelBench checkout with tasks that are good, broken, unfit and uncovered; a folder of a user's own."""

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
    "level2/2_uncovered": "        return torch.sort(x, dim=1).values",
}


OWN = {
    "scale.cu": """__global__ void scale(float* y, const float* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 3.0f * x[i];
}
void launch(float* y, const float* x, int n) { scale<<<(n + 127) / 128, 128>>>(y, x, n); }
""",
    "scale.py": "import torch\nclass Scale(torch.nn.Module):\n    pass\n",
    "program.cu": "__global__ void one(float* y) { *y = 1; }\nint main() { one<<<1, 1>>>(nullptr); }\n",
    "blocks/net.py": "from torch import nn\nclass Net(nn.Module):\n    pass\n",
    "notes.py": "width = 3\n",
    "header.cuh": "__global__ void k();\n",
    ".hidden/net.py": "class Model: pass\n",
    "env/pyvenv.cfg": "",
    "env/lib/net.py": "class Model: pass\n",
}


@pytest.fixture(scope="session")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("own") / "mine"
    for name, text in OWN.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.fixture(scope="session")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("checkout")
    for name, body in BODIES.items():
        file = root / "KernelBench" / f"{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{HEAD}class Model(nn.Module):\n    def forward(self, x):\n{body}\n{TAIL}")
    (root / "KernelBench" / "level2" / "3_not_a_task.py").write_text("print('hello')\n")
    return root
