"""Exported files on a real GPU: the same result as the original, by the kernel, and by nothing else where
it must not be."""

import warnings
from pathlib import Path
from types import ModuleType

import pytest
import torch

from kernelblaster.export.cuda_file import cuda_file
from kernelblaster.export.origin import Origin
from kernelblaster.export.python_file import python_file
from kernelblaster.judge.judge import DeviceJudge
from kernelblaster.policies.expert.policy import ExpertPolicy
from kernelblaster.records import Candidate, Evaluation
from kernelblaster.records.outcome import CORRECT
from kernelblaster.tasks.catalog import load_file

TASK = """
import torch
import torch.nn as nn
rows = 4096
cols = 1024
SMALL = {"rows": 5, "cols": 37}
class Model(nn.Module):
    def __init__(self, cols):
        super().__init__()
        self.norm = nn.LayerNorm(cols)
    def forward(self, x):
        return self.norm(torch.relu(x))
def get_inputs():
    return [torch.randn(rows, cols)]
def get_init_inputs():
    return [cols]
"""


@pytest.fixture(scope="module")
def origin(judge: DeviceJudge, tmp_path_factory: pytest.TempPathFactory) -> Origin:
    folder = tmp_path_factory.mktemp("task")
    (folder / "task.py").write_text(TASK)
    task = load_file("norm", folder / "task.py")
    candidate = ExpertPolicy().initial(task).candidate
    evaluation = judge.evaluate(task, candidate)
    assert isinstance(evaluation.outcome, CORRECT) and evaluation.compilation
    return Origin("run-1", candidate, evaluation, (), evaluation.compilation.architecture)


@pytest.fixture
def exported(origin: Origin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "task.py").write_text(TASK)
    task = load_file("norm", tmp_path / "task.py")

    def make(form: str) -> ModuleType:
        module = ModuleType("exported")
        exec(compile(python_file(task, origin, form), "exported.py", "exec"), module.__dict__)  # type: ignore[arg-type]
        assert module.KERNEL.problem is None
        return module

    return make


def test_the_module_computes_by_the_kernel_at_every_free_size(exported) -> None:  # type: ignore[no-untyped-def]
    made = exported("module")
    model = made.OptimizedModel(1024).cuda()
    original = made.Model(1024).cuda()
    model.load_state_dict(original.state_dict())
    for rows in (1, 3, 100, 4096):
        x = torch.randn(rows, 1024, device="cuda")
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("error")
            assert torch.allclose(model(x), original(x), atol=1e-5)


def test_the_module_falls_back_for_what_the_kernel_is_not_for(exported) -> None:  # type: ignore[no-untyped-def]
    made = exported("module")
    model = made.OptimizedModel(1024).cuda()
    odd = torch.randn(1024 * 8 + 1, device="cuda")[1:].view(8, 1024)
    cases = [
        (torch.randn(1024, 8, device="cuda").T, "not contiguous"),
        (odd, "does not begin at a multiple of 256 bytes"),
        (torch.randn(2, 8, 1024, device="cuda"), "has shape"),
    ]
    for x, reason in cases:
        with torch.no_grad(), pytest.warns(UserWarning, match=reason):
            result = model(x)
        assert torch.equal(result, made.Model.forward(model, x))
    x = torch.randn(8, 1024, device="cuda")
    with pytest.warns(UserWarning, match="gradients are wanted"):
        model(x).sum().backward()
    assert model.norm.weight.grad is not None
    half = made.OptimizedModel(1024).cuda().half()
    with torch.no_grad(), pytest.warns(UserWarning, match="is float16 where float32 is expected"):
        half(x.half())
    made.KERNEL.architecture = "sm_80"
    with torch.no_grad(), pytest.warns(UserWarning, match="the kernel is for sm_80, this GPU is"):
        model(x)


def test_work_goes_on_the_current_stream(exported) -> None:  # type: ignore[no-untyped-def]
    made = exported("module")
    model = made.OptimizedModel(1024).cuda()
    stream = torch.cuda.Stream()
    graph = torch.cuda.CUDAGraph()
    x = torch.randn(4096, 1024, device="cuda")
    with torch.no_grad():
        model(x)
        torch.cuda.synchronize()
        with torch.cuda.graph(graph, stream=stream):  # records the stream's work, and only that
            result = model(x)
        x.copy_(torch.randn_like(x))
        graph.replay()
        assert torch.allclose(result, made.Model.forward(model, x), atol=1e-5)


def test_a_kernelbench_file_never_runs_the_original_on_a_gpu(exported) -> None:  # type: ignore[no-untyped-def]
    made = exported("kernelbench")
    torch.manual_seed(0)
    original = made.Model(*made.get_init_inputs()).cuda()
    torch.manual_seed(0)
    new = made.ModelNew(*made.get_init_inputs()).cuda()
    inputs = [x.cuda() for x in made.get_inputs()]
    with torch.no_grad():
        assert torch.allclose(new(*inputs), original(*inputs), atol=1e-5)
        strided = torch.randn(1024, 64, device="cuda").T
        assert torch.allclose(new(strided), original(strided), atol=1e-5)
        with pytest.raises(RuntimeError, match="not for this kernel: x is float64"):
            new(inputs[0].double())


def test_the_exported_cu_is_judged_as_the_candidate_was(
    origin: Origin, judge: DeviceJudge, tmp_path: Path
) -> None:
    (tmp_path / "task.py").write_text(TASK)
    task = load_file("norm", tmp_path / "task.py")
    found: Evaluation = judge.evaluate(task, Candidate(source=cuda_file(task, origin)))
    assert isinstance(found.outcome, CORRECT)
