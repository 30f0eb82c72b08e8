"""Exported files: complete, honest about where they come from, and usable without KernelBlaster."""

import inspect
import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Literal

import pytest
import torch

from kernelblaster.devices.specs import gpu_named
from kernelblaster.errors import KernelBlasterError
from kernelblaster.export.cuda_file import cuda_file
from kernelblaster.export.module_facts import module_facts
from kernelblaster.export.origin import Origin, header_lines
from kernelblaster.export.python_file import python_file
from kernelblaster.judge.compile import Binary, compile_candidate
from kernelblaster.policies.expert.policy import ExpertPolicy
from kernelblaster.policies.policy import Target
from kernelblaster.records import Candidate, Evaluation, Inconclusive, Task
from kernelblaster.records.evaluation import Timing
from kernelblaster.records.outcome import Speedup
from kernelblaster.store.files import name_of
from kernelblaster.tasks.catalog import load_file

HEAD = "import torch, torch.nn as nn\nrows, cols = 512, 1024\nSMALL = {'rows': 3, 'cols': 5}\n"
TAIL = "def get_inputs():\n    return [torch.randn(rows, cols)]\ndef get_init_inputs():\n    return [cols]\n"
SCALE = """class Model(nn.Module):
    def __init__(self, cols):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(cols, 1))
    def forward(self, x):
        return x * self.inner[0].weight, {"sum": (x + self.inner[0].bias,)}
"""
RETURNS = """import collections
class Model(nn.Module):
    def __init__(self, cols):
        super().__init__()
    def forward(self, x):
        return {}
"""
KERNEL = """
#ifndef BLOCK
#define BLOCK 128
#endif
__global__ void scale(
    float* a, float* b, const float* x, const float* w, const float* c, int64_t n, int64_t m) {
  int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
  if (i >= n * m) return;
  a[i] = x[i] * w[i % m];
  b[i] = x[i] + c[0];
}
extern "C" void launch_gpu_implementation(
    float* out0, float* out1, const float* x, const float* inner_0_weight, const float* inner_0_bias,
    int64_t x_0, int64_t x_1, int64_t inner_0_weight_0, cudaStream_t stream) {
  scale<<<(x_0 * x_1 + BLOCK - 1) / BLOCK, BLOCK, 0, stream>>>(
      out0, out1, x, inner_0_weight, inner_0_bias, x_0, x_1);
}
"""


def task_in(folder: Path, body: str, head: str = HEAD) -> Task:
    (folder / "task.py").write_text(head + body + TAIL)
    return load_file("scale", folder / "task.py")


def origin(task: Task, source: str = KERNEL) -> Origin:
    candidate = Candidate(source=source, defines=(("BLOCK", 64),))
    speedup = Speedup(estimate=1.25, low=1.0, high=1.5, confidence=None)
    evaluation = Evaluation(
        task=task.name, candidate="c0", device="a device", outcome=Inconclusive(speedup=speedup), seconds=1
    )
    return Origin("run-1", candidate, evaluation, ("kernel_fusion",), "sm_90a")


def test_modelled_times_say_so(tmp_path: Path) -> None:
    timing = Timing(
        candidate_us=197.7,
        baseline_us=807.0,
        baseline="eager",
        floor_us=100.0,
        speedup=Speedup(estimate=4.0, low=3.0, high=5.0, confidence=None),
        samples=1,
        candidate_wall_us=None,
        candidate_activity_us=None,
        seconds=1.0,
        modelled=True,
    )
    found = origin(task_in(tmp_path, SCALE))
    found = replace(found, evaluation=found.evaluation.model_copy(update={"timing": timing}))
    head = "\n".join(header_lines(found))
    assert "197.7 us modelled, eager 807.0 us modelled, floor 100.0 us" in head


def imported(text: str) -> ModuleType:
    module = ModuleType("exported")
    exec(compile(text, "exported.py", "exec"), module.__dict__)
    return module


def test_the_cu_says_where_it_comes_from_and_can_be_judged_again(compiler: str, tmp_path: Path) -> None:
    task = task_in(tmp_path, SCALE)
    found = origin(task)
    text = cuda_file(task, found)
    code, source = found.candidate.code, name_of(found.candidate.source)
    assert text.startswith(
        "// scale, optimized by KernelBlaster\n"
        f"// run run-1, code {code}, source {source}\n// on a device (sm_90a)\n"
    )
    assert "// applied: kernel_fusion" in text and "#define BLOCK 64" in text
    assert isinstance(compile_candidate(task, Candidate(source=text), "sm_90a"), Binary)
    (tmp_path / "alone.cu").write_text(text)
    alone = [
        compiler,
        "-std=c++17",
        "-shared",
        "-Xcompiler",
        "-fPIC",
        "-arch=sm_90a",
        "alone.cu",
        "-o",
        "a.so",
    ]
    subprocess.run(alone, cwd=tmp_path, check=True)


def test_a_kernelbench_file_has_the_interface_and_the_parameters_of_the_original(
    compiler: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    task = task_in(tmp_path, SCALE)
    made = imported(python_file(task, origin(task), "kernelbench"))
    assert made.KERNEL.problem is None and len(list((tmp_path / "cache").rglob("*.so"))) == 1
    torch.manual_seed(7)
    original = made.Model(*made.get_init_inputs())
    torch.manual_seed(7)
    new = made.ModelNew(*made.get_init_inputs())
    assert new.state_dict().keys() == original.state_dict().keys()
    new.load_state_dict(original.state_dict())
    if not torch.cuda.is_available():
        inputs = made.get_inputs()
        (first, rest), (expected, others) = new(*inputs), original(*inputs)
        assert torch.equal(first, expected) and torch.equal(rest["sum"][0], others["sum"][0])


def test_a_module_falls_back_with_one_warning_for_each_reason(
    compiler: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    task = task_in(tmp_path, SCALE)
    made = imported(python_file(task, origin(task), "module"))
    model = made.OptimizedModel(*made.get_init_inputs())
    x = torch.randn(4, 1024)
    with pytest.warns(
        UserWarning, match="the original module runs instead of the kernel: x is on cpu"
    ) as told:
        for _ in range(3):
            assert torch.equal(model(x)[0], made.Model.forward(model, x)[0])
    assert len(told) == 1
    with warnings.catch_warnings(record=True) as more:
        model(x=x)
    assert not more, "by name it is the same call, and its reason was told"
    other = made.OptimizedModel(8)
    with pytest.warns(UserWarning, match="built with other arguments"):
        other(torch.randn(2, 8))


def test_an_exported_file_imports_nothing_of_kernelblaster(tmp_path: Path) -> None:
    task = task_in(tmp_path, SCALE)
    text = python_file(task, origin(task), "module").replace("KERNEL.build()", "")
    (tmp_path / "exported.py").write_text(text)
    program = "import exported, sys, torch; assert 'kernelblaster' not in sys.modules; "
    program += "print(exported.OptimizedModel(1024)(torch.ones(2, 1024))[0].shape)"
    told = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env={}, check=True, capture_output=True, text=True
    )
    assert told.stdout == "torch.Size([2, 1024])\n"
    assert "the original module runs instead of the kernel: x is on cpu" in told.stderr


MASKED = """class Model(nn.Module):
    def __init__(self, cols, eps=1e-6):
        super().__init__()
        self.eps = eps
    def forward(self, x, *, mask=None):
        return x + self.eps if mask is None else x * mask
def get_init_inputs():
    return [cols]
def get_inputs():
    return {"x": torch.randn(rows, cols), "mask": torch.randn(rows, cols)}
"""


def test_an_optional_input_that_is_left_out_runs_the_original_module(tmp_path: Path) -> None:
    (tmp_path / "task.py").write_text(HEAD + MASKED)
    task = load_file("masked", tmp_path / "task.py")
    made = imported(python_file(task, origin(task), "module").replace("KERNEL.build()", ""))
    model, x = made.OptimizedModel(1024, eps=1e-6), torch.randn(4, 1024)
    with pytest.warns(UserWarning, match="the original module runs"):
        assert torch.equal(model(x), x + 1e-6) and torch.equal(model(x, mask=x), x * x)
    assert made.KERNEL.flat_inputs((x,), {}) == ((x, None), None)
    assert made.get_inputs().keys() == {"x", "mask"}


NORMED = """class Model(nn.Module):
    def __init__(self, cols):
        super().__init__()
        self.norm = nn.{}
        {}
    def forward(self, x):
        return self.norm(x)
"""


def test_signatures_are_those_of_the_original(tmp_path: Path) -> None:
    (tmp_path / "task.py").write_text(HEAD + MASKED)
    task = load_file("masked", tmp_path / "task.py")
    made = imported(python_file(task, origin(task), "module").replace("KERNEL.build()", ""))
    assert inspect.signature(made.OptimizedModel) == inspect.signature(made.Model)
    assert str(inspect.signature(made.OptimizedModel(8).forward)) == "(x, *, mask=None)"


def test_a_call_that_is_none_ends_as_in_the_original_without_a_warning(tmp_path: Path) -> None:
    (tmp_path / "task.py").write_text(HEAD + MASKED)
    task = load_file("masked", tmp_path / "task.py")
    made = imported(python_file(task, origin(task), "module").replace("KERNEL.build()", ""))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with pytest.raises(TypeError, match="missing 1 required positional argument: 'x'"):
            made.OptimizedModel(8)()
    assert not told
    with pytest.warns(UserWarning, match="the original module runs") as shown:
        made.OptimizedModel(8)(torch.ones(2, 8))
    assert [one.filename for one in shown] == [__file__]


NAMED = """class Model(nn.Module):
    def __init__(self, eps=1e-6, {}cols=4):
        super().__init__()
        self.eps, self.cols = eps, cols
    def forward(self, x):
        return x[:, :self.cols] + self.eps
def get_init_inputs():
    return {{"cols": cols}}
def get_inputs():
    return [torch.randn(rows, cols)]
"""


def test_kernelbench_gives_arguments_of_the_constructor_by_position(tmp_path: Path) -> None:
    (tmp_path / "task.py").write_text(HEAD + NAMED.format(""))
    task = load_file("named", tmp_path / "task.py")
    built = "KERNEL.build(native_architecture() if torch.cuda.is_available() else None)"
    made = imported(python_file(task, origin(task), "kernelbench").replace(built, ""))
    assert made.get_init_inputs() == [1e-6, 1024]
    new = made.ModelNew(*made.get_init_inputs())
    assert new.cols == 1024 and new.built_otherwise is None
    (tmp_path / "other.py").write_text(HEAD + NAMED.format("*, "))
    other = load_file("other", tmp_path / "other.py")
    assert "_by_position" not in python_file(other, origin(other), "module")
    made = imported(python_file(other, origin(other), "kernelbench").replace(built, ""))
    assert made.get_init_inputs() == [1024]
    new, old = made.ModelNew(*made.get_init_inputs()), made.Model(*made.get_init_inputs())
    assert new.cols == old.cols == 1024 and new.built_otherwise is None
    assert made.ModelNew(512).built_otherwise == "cols is 512 where 1024 is expected"


def test_kernelbench_takes_a_module_that_names_itself_in_super(tmp_path: Path) -> None:
    text = NAMED.format("*, ").replace("super().__init__()", "super(Model, self).__init__()")
    assert text != NAMED.format("*, ")
    (tmp_path / "task.py").write_text(HEAD + text)
    task = load_file("named", tmp_path / "task.py")
    built = "KERNEL.build(native_architecture() if torch.cuda.is_available() else None)"
    made = imported(python_file(task, origin(task), "kernelbench").replace(built, ""))
    assert made.ModelNew(*made.get_init_inputs()).cols == 1024


def test_what_only_holds_in_one_mode_is_guarded(tmp_path: Path) -> None:
    plain = module_facts(task_in(tmp_path, NORMED.format("LayerNorm(cols)", "")))
    assert plain.modes is None and not plain.changed_buffers and plain.result == "out[0]"
    task = task_in(tmp_path, NORMED.format("BatchNorm1d(cols)", ""))
    batch = module_facts(task)
    assert batch.modes == [[True, True]] and batch.changed_buffers
    with pytest.raises(
        KernelBlasterError, match=r"changes the module's buffers \(.*running_mean.*self\.eval\(\)"
    ):
        python_file(task, origin(task), "module")


@pytest.mark.parametrize(
    ("end", "modes"),
    [("self.eval()", [[False, False]]), ("self.norm.eval()", [[True, False], [False, False]])],
)
def test_batch_normalization_in_inference_mode_is_exported(
    end: str, modes: list[list[bool]], tmp_path: Path
) -> None:
    task = task_in(tmp_path, NORMED.format("BatchNorm1d(cols)", end))
    facts = module_facts(task)
    assert facts.modes == modes and not facts.changed_buffers
    made = imported(python_file(task, origin(task), "module").replace("KERNEL.build()", ""))
    model = made.OptimizedModel(*made.get_init_inputs())
    with torch.no_grad():
        assert made.KERNEL._modes(model, ()) is None
    assert made.KERNEL._modes(model.train(), ()) == "the module is in training mode"


def test_results_keep_their_structure(tmp_path: Path) -> None:
    facts = module_facts(task_in(tmp_path, RETURNS.format("[x + 1, (x, {'a': x})]")))
    assert facts.result == "[out[0], (out[1], {'a': out[2]},)]"
    facts = module_facts(task_in(tmp_path, RETURNS.format("torch.max(x, dim=-1)")))
    assert facts.result == "torch.return_types.max((out[0], out[1],))"


def test_what_cannot_be_exported_is_said(tmp_path: Path) -> None:
    clash = task_in(tmp_path, SCALE, HEAD + "KERNEL = 3\n")
    with pytest.raises(KernelBlasterError, match="another use for the name KERNEL"):
        python_file(clash, origin(clash), "module")
    cuda = clash.model_copy(update={"kind": "cuda"})
    with pytest.raises(KernelBlasterError, match="--format cu"):
        python_file(cuda, origin(cuda), "kernelbench")
    odd = task_in(tmp_path, RETURNS.format("collections.namedtuple('Pair', 'a b')(x + 1, x)"))
    with pytest.raises(KernelBlasterError, match="only tensors in tuples, lists and dicts"):
        python_file(odd, origin(odd), "module")


WEIGHTED = """class Model(nn.Module):
    def __init__(self, cols):
        super().__init__()
        self.w = nn.Parameter(torch.randn(cols, cols))
    def forward(self, x):
        return {}
"""
FAMILIES = {
    "reduction": ("float32", "torch.softmax(x, dim=-1) * self.w[0]"),
    "tiled product": ("float16", "x @ self.w"),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_what_the_expert_writes_compiles_alone(family: str, compiler: str, tmp_path: Path) -> None:
    dtype, forward = FAMILIES[family]
    (tmp_path / "task.py").write_text(HEAD + WEIGHTED.format(forward) + TAIL)
    task = load_file("made", tmp_path / "task.py", dtype)  # type: ignore[arg-type]
    policy = ExpertPolicy(gpu_named("h200"))
    attempt = policy.initial(task)
    if family == "tiled product":
        target = Target(attempt.form.kernels[0].name, 1.0, None, None)  # type: ignore[arg-type]
        for technique in ("shared_memory_tiling", "tensor_core_utilization"):
            attempt = next(policy.moves(attempt, technique, target))
    found = replace(origin(task), candidate=attempt.candidate)
    (tmp_path / "alone.cu").write_text(cuda_file(task, found))
    subprocess.run([compiler, "-std=c++17", "-arch=sm_90a", "-c", "alone.cu"], cwd=tmp_path, check=True)


HOSTILE = "fusion\nraise SystemExit('run by an export')\r#error from a name\\"


@pytest.mark.parametrize("form", ["kernelbench", "module"])
def test_a_name_does_not_become_code(form: Literal["kernelbench", "module"], tmp_path: Path) -> None:
    task = task_in(tmp_path, SCALE)
    named = origin(task, KERNEL + "// '''\x1b\n// coding: utf-7\n")
    evaluation = named.evaluation.model_copy(update={"task": HOSTILE, "device": "coding: utf-7\n1/0"})
    named = replace(named, run=HOSTILE, evaluation=evaluation, applied=(HOSTILE,), architecture="sm_90a\n1/0")
    text = python_file(task, named, form)
    head = text.partition("import torch")[0]
    assert head.startswith("# coding: utf-8\n")
    assert all(line.startswith("#") for line in head.splitlines() if line)
    assert "\x1b" not in text and imported(text.encode().decode()).KERNEL.source.count("'''") == 1


def test_a_name_does_not_become_cuda(tmp_path: Path) -> None:
    task = task_in(tmp_path, SCALE).model_copy(update={"name": HOSTILE})
    named = replace(origin(task), run=HOSTILE, applied=(HOSTILE,))
    lines = cuda_file(task, named).partition("__global__")[0].splitlines()
    assert not [line for line in lines if "#error" in line and not line.startswith("// ")]
    assert not [line for line in lines if line.endswith("\\")]
