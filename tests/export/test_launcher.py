"""The launcher of exported files on a library that runs on the host: what it lets through is computed by
the library, what it does not is named."""

import re
import shutil
import subprocess
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

from kernelblaster.export.launcher import ExportedKernel

LIBRARY = """
#include <cstdint>
extern "C" const char* exported_launch(
    float* out, const float* x, double factor, const float* bias, int64_t rows, int64_t cols, int64_t half,
    void* stream) {
  if (factor < 0) return "a negative factor";
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < half; ++c) out[r * half + c] = x[r * cols + 2 * c] * factor + bias[c];
  return nullptr;
}
"""


class Model(torch.nn.Module):
    """Every second column, scaled, with a bias."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.shift = torch.nn.Module()
        self.shift.register_parameter("bias", torch.nn.Parameter(torch.arange(float(width))))
        self.shift.bias.requires_grad = False

    def forward(self, x: torch.Tensor, factor: float) -> torch.Tensor:
        return x[:, ::2] * factor + self.shift.bias


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("g++") is None:
        pytest.skip("g++ was not found")
    folder = tmp_path_factory.mktemp("library")
    (folder / "kernel.cpp").write_text(LIBRARY)
    subprocess.run(["g++", "-shared", "-fPIC", "kernel.cpp", "-o", "kernel.so"], cwd=folder, check=True)
    return folder / "kernel.so"


@pytest.fixture
def kernel(library: Path) -> ExportedKernel:
    made = ExportedKernel(
        source="",
        architecture="sm_90a",
        model=Model,
        built_with=[4],
        outputs=[("out", "float32", ("x_0", "out_1"))],
        inputs=[("x", "float32", ("x_0", "x_1")), ("factor", "float")],
        parameters=[("shift.bias", "float32", ("out_1",))],
        sizes={"x_0": "free", "x_1": "free", "out_1": 4},
        modes=None,
        most_bytes=400,
    )
    made.device_type, made.alignment = "cpu", 4
    made.load(library)
    return made


def test_what_the_guards_let_through_is_computed(kernel: ExportedKernel) -> None:
    model, x = Model(4), torch.randn(3, 8)
    assert kernel.why_not(model, (x, 2.0)) is None
    assert torch.equal(kernel.launch(model, (x, 2.0))[0], model(x, 2.0))
    flat, reason = kernel.flat_inputs((x,), {"factor": 2.0})
    assert reason is None and torch.equal(kernel.launch(model, flat)[0], model(x, factor=2.0))


def calls(kernel: ExportedKernel, model: torch.nn.Module, *inputs: Any, **named: Any) -> str | None:
    """Why the kernel does not run for this call; None if it does, and its outputs are right."""
    out, reason = kernel.run(model, inputs, named)
    if out is not None:
        assert reason is None and torch.equal(out[0], model(*inputs, **named))
    return reason


def test_a_call_like_one_before_is_looked_at_only_where_it_can_differ(
    kernel: ExportedKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Model(4)
    assert calls(kernel, model, torch.randn(3, 8), 2.0) is None
    monkeypatch.setattr(kernel, "why_not", lambda *_: pytest.fail("all guards again"))
    for factor in (0.5, 2.0):
        assert calls(kernel, model, torch.randn(3, 8), factor) is None
        assert calls(kernel, Model(4), torch.randn(3, 8), factor) is None
    for _ in range(2):  # by name: put in order as the first such call was
        assert calls(kernel, model, factor=2.0, x=torch.randn(3, 8)) is None
        monkeypatch.setattr(kernel, "flat_inputs", lambda *_: pytest.fail("bound again"))


OTHERS: dict[str, tuple[Any, Any]] = {
    "is not contiguous": (torch.zeros(8, 3).T, 2.0),
    "x has shape": (torch.zeros(3, 8, 1), 2.0),
    "factor is a int": (torch.zeros(3, 8), 2),
    "x is float64": (torch.zeros(3, 8).double(), 2.0),
    "x is on meta": (torch.zeros(3, 8, device="meta"), 2.0),
    "gradients of its inputs": (torch.zeros(3, 8, requires_grad=True), 2.0),
    "432 bytes are given": (torch.zeros(13, 8), 2.0),
    "x is a list": ([1], 2.0),
}


@pytest.mark.parametrize("reason", OTHERS)
def test_guards_hold_after_a_call_that_was_let_through(kernel: ExportedKernel, reason: str) -> None:
    model = Model(4)
    for _ in range(2):
        assert calls(kernel, model, torch.randn(3, 8), 2.0) is None
        assert reason in (calls(kernel, model, *OTHERS[reason]) or "")


def test_guards_hold_when_the_module_changes_between_calls(kernel: ExportedKernel) -> None:
    model, x = Model(4), torch.randn(3, 8)
    kernel.modes = [[True, True]]
    assert calls(kernel, model, x, 2.0) is None
    assert "not in training mode" in (calls(kernel, model.eval(), x, 2.0) or "")
    assert calls(kernel, model.train(), x, 2.0) is None
    model.shift.bias.data = torch.zeros(4)
    assert calls(kernel, model, x, 2.0) is None, "other values, and another address"
    for other, reason in (
        (torch.zeros(8)[::2], "not contiguous"),
        (torch.zeros(4).double(), "shift.bias is float64"),
        (torch.zeros(5), "shift.bias has 5"),
    ):
        model.shift.bias.data = other
        assert reason in (calls(kernel, model, x, 2.0) or "")
    model.shift.bias = None
    assert "shift.bias is a NoneType" in (calls(kernel, model, x, 2.0) or "")


def test_memory_that_begins_anywhere_is_not_taken_later_either(kernel: ExportedKernel) -> None:
    kernel.alignment, kernel.parameters, kernel._parameters_of = 256, [], []
    base = torch.empty(1024)
    start = (-base.data_ptr() // 4) % 64
    aligned, shifted = (base[at : at + 24].view(3, 8) for at in (start, start + 1))
    kernel._launch = lambda *_: None
    for _ in range(2):
        assert kernel.run(Model(4), (aligned, 2.0), {})[1] is None
        assert "multiple of 256 bytes" in (kernel.run(Model(4), (shifted, 2.0), {})[1] or "")


def test_sizes_that_follow_from_numbers_are_found_for_each_number(kernel: ExportedKernel) -> None:
    class Repeated(Model):
        def forward(self, x: torch.Tensor, factor: float) -> torch.Tensor:
            return x.repeat(1, int(factor))

    kernel.model, kernel.parameters, kernel._parameters_of = Repeated, [], []
    kernel.outputs = [("out", "float32", ("x_0", "out_1"))]
    kernel.sizes, kernel._asks_module = {"x_0": "free", "x_1": "free", "out_1": "derived"}, True
    kernel._launch = lambda *_: None
    for factor in (2.0, 3.0, 2.0):
        out, _ = kernel.run(Repeated(4), (X, factor), {})
        assert out is not None and out[0].shape == (3, 8 * int(factor))


def test_only_so_many_kinds_of_calls_are_remembered(
    kernel: ExportedKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kernelblaster.export.launcher.MOST_PLANS", 2)
    for rows in range(1, 6):
        assert calls(kernel, Model(4), torch.randn(rows, 8), 2.0) is None
    assert len(kernel._plans) <= 2


def test_sizes_that_only_the_module_knows_are_asked_of_it_once(kernel: ExportedKernel) -> None:
    calls = []

    class Counted(Model):
        def forward(self, x: torch.Tensor, factor: float) -> torch.Tensor:
            calls.append(x)
            return Model.forward(self, x, factor)

    kernel.model = Counted
    kernel.parameters = [("shift.bias", "float32", ("bias_0",))]
    kernel.sizes = {"x_0": "free", "x_1": "free", "bias_0": 4, "out_1": "derived"}
    model = Model(4)
    for _ in range(2):
        sizes = kernel._extents(model, (torch.randn(3, 8), 2.0), [model.shift.bias])
        assert sizes["out_1"] == 4
    assert len(calls) == 1


def test_what_the_runtime_says_is_raised(kernel: ExportedKernel) -> None:
    with pytest.raises(RuntimeError, match="could not be launched: a negative factor"):
        kernel.launch(Model(4), (torch.randn(3, 8), -1.0))


@pytest.mark.parametrize(
    ("inputs", "reason"),
    [
        ((torch.zeros(3, 8),), "1 inputs are given where the kernel takes 2"),
        ((torch.zeros(3, 8), 2), "factor is a int where a float is expected"),
        ((3.0, 2.0), "x is a float where a tensor is expected"),
        ((torch.zeros(3, 8).double(), 2.0), "x is float64 where float32 is expected"),
        ((torch.zeros(3, 8, device="meta"), 2.0), "x is on meta"),
        ((torch.zeros(8, 3).T, 2.0), "x is not contiguous"),
        ((torch.zeros(3, 8, 1), 2.0), r"x has shape \(3, 8, 1\) where \(x_0, x_1\) is expected"),
        ((torch.zeros(0, 8), 2.0), r"x has shape \(0, 8\)"),
        ((torch.zeros(3, 8, requires_grad=True), 2.0), "gradients of its inputs are wanted"),
    ],
)
def test_what_the_kernel_is_not_for_is_named(
    kernel: ExportedKernel, inputs: tuple[Any, ...], reason: str
) -> None:
    assert re.search(reason, kernel.why_not(Model(4), inputs) or "")


def test_memory_that_begins_anywhere_is_not_taken(kernel: ExportedKernel) -> None:
    kernel.alignment = 256
    base = torch.empty(1024)
    start = (-base.data_ptr() // 4) % 64
    aligned = base[start : start + 24].view(3, 8)
    shifted = base[start + 1 : start + 25].view(3, 8)
    kernel.parameters = []
    kernel._parameters_of = []
    assert kernel.why_not(Model(4), (aligned, 2.0)) is None
    assert "multiple of 256 bytes" in (kernel.why_not(Model(4), (shifted, 2.0)) or "")


def test_one_name_is_one_size_and_fixed_sizes_stay(kernel: ExportedKernel) -> None:
    kernel.inputs = [("x", "float32", ("n", "n")), ("factor", "float")]
    kernel.sizes = {"n": "free", "out_1": 4}
    assert kernel.why_not(Model(4), (torch.zeros(3, 8), 2.0)) == "x has 8 in dimension 1 where 3 is expected"
    reason = kernel.why_not(Model(5), (torch.zeros(8, 8), 2.0))
    assert reason == "shift.bias has 5 in dimension 0 where 4 is expected"


def test_more_than_was_judged_is_not_for_it(kernel: ExportedKernel) -> None:
    assert kernel.why_not(Model(4), (torch.zeros(12, 8), 2.0)) is None
    reason = kernel.why_not(Model(4), (torch.zeros(13, 8), 2.0))
    assert reason == "432 bytes are given where at most 400 were judged"


def test_a_module_in_another_mode_or_of_other_arguments_is_not_the_one_judged(kernel: ExportedKernel) -> None:
    inputs = (torch.zeros(3, 8), 2.0)
    kernel.modes = [[True, True], [True, False]]
    assert kernel.why_not(Model(4), inputs) is None
    assert kernel.why_not(Model(4).eval(), inputs) == "the module is not in training mode"
    model = Model(4)
    model.shift.eval()
    assert kernel.why_not(model, inputs) is None
    kernel.modes = [[False, False]]
    assert kernel.why_not(Model(4), inputs) == "the module is in training mode"
    assert kernel.built_otherwise((5,), {}) == "width is 5 where 4 is expected"


class Built(torch.nn.Module):
    """Constructor arguments of the kinds that there are."""

    def __init__(self, dim: int, eps: float = 1e-6, *parts: Any, mask: Any = None, **more: Any) -> None: ...


@pytest.mark.parametrize("judged", [[2048, 1e-5], {"dim": 2048, "eps": 1e-5}])
@pytest.mark.parametrize(
    ("arguments", "named", "otherwise"),
    [
        ((2048,), {"eps": 1e-5}, None),
        ((2048, 1e-5), {}, None),
        ((), {"eps": 1e-5, "dim": 2048, "mask": None}, None),
        ((2048,), {}, "eps is 1e-06 where 1e-05 is expected"),
        ((2048.0, 1e-5), {}, "dim is 2048.0 where 2048 is expected"),
        ((2048, 1e-5, 3), {}, "parts is (3,) where () is expected"),
        ((2048, 1e-5), {"mask": torch.ones(2)}, "mask is a tensor where None is expected"),
        ((2048, 1e-5), {"bias": True}, "more is {'bias': True} where {} is expected"),
    ],
)
def test_constructor_arguments_may_be_spelled_in_any_way(
    kernel: ExportedKernel, judged: Any, arguments: tuple[Any, ...], named: Any, otherwise: str | None
) -> None:
    kernel.model, kernel.built_with = Built, judged
    assert kernel.built_otherwise(arguments, named) == otherwise


def test_tensors_among_constructor_arguments_are_compared_by_value(kernel: ExportedKernel) -> None:
    kernel.model, kernel.built_with = Built, [4, [torch.zeros(3)]]
    assert kernel.built_otherwise((4,), {"eps": [torch.zeros(3)]}) is None
    assert kernel.built_otherwise((4, [torch.ones(3)]), {}) == "eps[0] has other values"


class Masked(torch.nn.Module):
    """An optional input, given by name."""

    def forward(self, x: Any, scale: float = 1.0, *, mask: Any = None) -> Any: ...


X = torch.zeros(3, 8)


@pytest.mark.parametrize(
    ("inputs", "named", "reason"),
    [
        ((X,), {"mask": X}, None),
        ((), {"mask": X, "x": X}, None),
        ((X, 1.0), {"mask": X}, None),
        ((X, 2.0), {"mask": X}, "scale is 2.0 where 1.0 is expected"),
        ((X, X), {"mask": X}, "scale is a tensor where 1.0 is expected"),
        ((), {"mask": X}, "missing a required argument: 'x'"),
    ],
)
def test_inputs_are_taken_by_position_or_by_name(
    kernel: ExportedKernel, inputs: tuple[Any, ...], named: Any, reason: str | None
) -> None:
    kernel.model, kernel.call = Masked, lambda x, mask: ((x,), {"mask": mask})
    assert kernel.flat_inputs(inputs, named) == ((X, X) if reason is None else (), reason)


def test_inputs_in_dicts_are_found_in_them(kernel: ExportedKernel) -> None:
    kernel.model, kernel.call = Masked, lambda a, b: (({"a": a, "b": [b, None]},), {})
    assert kernel.flat_inputs(({"a": X, "b": [2.0, None]},), {}) == ((X, 2.0), None)
    assert kernel.flat_inputs(({"a": X, "b": [2.0, 3]},), {})[1] == "x['b'][1] is 3 where None is expected"
    assert "is expected" in (kernel.flat_inputs(({"a": X},), {})[1] or "")


def test_parameters_that_want_gradients_are_told_of_once(kernel: ExportedKernel) -> None:
    model, inputs = Model(4), (torch.randn(3, 8), 2.0)
    model.shift.bias.requires_grad = True
    with pytest.warns(UserWarning, match="no gradients flow to the parameters") as told:
        assert [kernel.why_not(model, inputs) for _ in range(3)] == [None] * 3
    assert len(told) == 1
    assert torch.equal(kernel.launch(model, inputs)[0], model(*inputs))


def test_a_kernel_that_was_not_built_says_why(kernel: ExportedKernel) -> None:
    kernel._launch, kernel.problem = None, "nvcc was not found"
    assert kernel.why_not(Model(4), (torch.zeros(3, 8), 2.0)) == "nvcc was not found"


def test_each_reason_is_told_once(kernel: ExportedKernel) -> None:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for reason in ("x is on cpu", "x is on cpu", "x is not contiguous"):
            kernel.say_once(reason)
    assert [str(w.message).rpartition(": ")[2] for w in told] == ["x is on cpu.", "x is not contiguous."]


def test_a_warning_is_shown_at_the_line_that_called_the_module(kernel: ExportedKernel) -> None:
    class Wrapping(torch.nn.Module):
        def forward(self) -> None:
            kernel.say_once("x is on cpu")

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        torch.nn.Sequential(Wrapping()).get_submodule("0")()
    assert [w.filename for w in told] == [__file__]


def test_without_a_compiler_the_problem_is_kept(
    kernel: ExportedKernel, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("kernelblaster.export.launcher._nvcc", lambda: None)
    assert "set CUDA_HOME" in (kernel.build().problem or "")
    monkeypatch.setattr("kernelblaster.export.launcher._nvcc", lambda: "/bin/false")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert "nvcc failed" in (kernel.build().problem or "")
    assert not list(tmp_path.rglob("*.so"))
