import logging
from pathlib import Path

import pytest

from kernelblaster.errors import BadTask
from kernelblaster.tasks.catalog import find, load_task
from kernelblaster.tasks.header import declaration

GOOD = """
import torch, torch.nn as nn
rows = 40
cols = 64
class Model(nn.Module):
    def __init__(self, cols):
        super().__init__()
        self.linear = nn.Linear(cols, 8)
        self.norm = nn.BatchNorm1d(8)
    def forward(self, x, scale: float):
        y = self.norm(self.linear(x)) * scale
        return y, y.argmax(1)
def get_inputs():
    return [torch.randn(rows, cols), 2.5]
def get_init_inputs():
    return [cols]
"""


def write(folder: Path, name: str, text: str) -> str:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return str(path)


def test_signature_of_a_module_with_everything(tmp_path: Path) -> None:
    task = load_task(write(tmp_path, "t.py", GOOD))
    text = declaration(task.signature, "t")
    assert "float* out0, int64_t* out1," in text
    assert "const float* x, double scale," in text
    assert "const float* norm_running_var," in text
    assert "num_batches_tracked" not in text
    assert "int64_t x_0, int64_t x_1, int64_t linear_weight_0," in text
    assert [s.kind for s in task.signature.sizes] == ["free", "fixed", "fixed"]
    assert task.primary.sizes == {"x_0": 40, "x_1": 64, "linear_weight_0": 8}
    assert task.small is not None and task.small.sizes["x_1"] <= 64
    assert not task.small_declared


def test_half_precision_is_a_cast(tmp_path: Path) -> None:
    task = load_task(write(tmp_path, "t.py", GOOD), "float16")
    assert task.signature.outputs[0].dtype == "float16"
    assert task.signature.outputs[1].dtype == "int64"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def f(:\n", "syntax error"),
        ("import nothing_of_that_name\n", "needs the package nothing_of_that_name, which is not installed"),
        ("x = 1\n", "no class derived from torch.nn.Module. A task file has such a class, and get_inputs()"),
        (
            "import torch\nnet = torch.nn.Sequential()\n",
            "Its net is a Sequential that is built already: build it",
        ),
        (
            "from math import gcd\nfrom shutil import copy\ndef f(x): return x\n",
            "Call f() in the forward() of a",
        ),
        (GOOD.replace("class Model", "class Block") + "class Net(nn.Module): pass\n", "classes Block, Net"),
        (GOOD + "class Model(nn.Module): pass\n", "Model is defined on lines 5 and 17"),
        (GOOD.replace("[cols]\n", "[cols, 3]\n"), "Model could not be built"),
        (GOOD.replace("nn.Linear(cols, 8)", "nn.Linear(cols + 1, 8)"), "failed on its own inputs"),
        (GOOD.replace("return y, y.argmax(1)", "return 3"), "must return tensors"),
        (GOOD.replace("2.5]", "object()]"), "inputs are tensors"),
        (GOOD + "\nSMALL = {'depth': 3}\n", "SMALL names depth"),
    ],
)
def test_bad_files_get_one_line_that_names_the_file(tmp_path: Path, text: str, message: str) -> None:
    path = write(tmp_path, "bad.py", text)
    with pytest.raises(BadTask) as error:
        load_task(path)
    assert message in str(error.value)
    assert "bad.py" in str(error.value)
    assert "\n" not in str(error.value)


def test_sizes_that_do_not_go_together_are_tried_without_a_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mask's size cannot shrink alone."""
    text = (
        "import torch, torch.nn as nn\nclass Model(nn.Module):\n    def __init__(self):\n"
        "        super().__init__()\n        self.register_buffer('mask', torch.ones(1024, 1024) > 0)\n"
        "    def forward(self, x):\n        n = x.shape[-1]\n"
        "        return x.masked_fill(self.mask[:n, :n], 0.0)\n"
        "def get_inputs():\n    return [torch.randn(4, 512, 512)]\ndef get_init_inputs():\n    return []\n"
    )
    records: list[logging.LogRecord] = []
    handler = logging.Handler()
    monkeypatch.setattr(handler, "emit", records.append)
    monkeypatch.setattr(logging.getLogger("torch._subclasses.fake_tensor"), "handlers", [handler])
    assert load_task(write(tmp_path, "t.py", text)).small is not None
    assert records == []


def test_unknown_names_get_a_suggestion() -> None:
    with pytest.raises(BadTask, match="Did you mean core/level1/softmax"):
        load_task("core/level1/softmx")


def test_a_folder_is_not_one_task(tmp_path: Path) -> None:
    write(tmp_path, "a.py", GOOD)
    write(tmp_path, "b.py", GOOD)
    write(tmp_path, "notes.py", "x = 1\n")
    assert len(find(str(tmp_path))) == 2
    with pytest.raises(BadTask, match="stands for 2 tasks"):
        load_task(str(tmp_path))


def test_a_kernelbench_checkout_by_level_and_number(tmp_path: Path) -> None:
    for level in (1, 2):
        for number in (2, 10, 1):
            write(tmp_path, f"KernelBench/level{level}/{number}_Some_Op.py", GOOD)
    names = [name for name, _ in find(f"kernelbench:{tmp_path}/level1")]
    assert names == [f"kernelbench:level1/{n}_Some_Op" for n in (1, 2, 10)]
    assert len(find(f"kernelbench:{tmp_path}")) == 6
    assert find(f"kernelbench:{tmp_path}/level2/10")[0][1].name == "10_Some_Op.py"
    with pytest.raises(BadTask, match="no KernelBench problem"):
        find(f"kernelbench:{tmp_path}/level2/11")


CUDA = """
// kernelblaster-task
// size: rows = 4096, small 7
// size: taps = 3, fixed
// output: out float32 [rows]
// input: x float32 [rows] positive
// input: index int32 [rows] below rows
// parameter: w float32 [taps]
"""


def test_a_cuda_file_declares_its_task(tmp_path: Path) -> None:
    task = load_task(write(tmp_path, "k.cu", CUDA))
    assert task.kind == "cuda"
    assert "const float* x, const int32_t* index," in declaration(task.signature, "k")
    assert task.workload("odd").sizes["taps"] == 3
    assert task.workload("odd").sizes["rows"] % 2 == 1
    assert task.workload("small").sizes["rows"] == 7


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("// size: rows is 5", "expected 'size: NAME = NUMBER"),
        ("// input: y float33 [rows]", "type float33"),
        ("// input: y float32 [columns]", "size columns is not declared"),
        ("// input: y float32 [rows] gamma", "distribution 'gamma'"),
    ],
)
def test_bad_declarations_name_their_line(tmp_path: Path, line: str, message: str) -> None:
    with pytest.raises(BadTask, match=r"k\.cu:9: ") as error:
        load_task(write(tmp_path, "k.cu", CUDA + line + "\n"))
    assert message in str(error.value)
