"""A kernel in a module at hand: the module stays what it was, and calls are right whoever answers them."""

import copy
import ctypes
import inspect
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import nn

from kernelblaster.api.drop_in import GivenModule, with_kernel
from kernelblaster.export.python_file import python_file
from kernelblaster.tasks.torch_programs import original_of, task_from_module
from tests.export.test_files import imported, origin

X, MASK = torch.randn(64, 8), torch.rand(64, 8)
NAMED = {"x": X, "mask": MASK}
KernelCalls = list[int]


class Gated(nn.Module):
    """What people write: a default, an optional input by name, attributes, a method, a tensor of its own."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.width = width
        self.weight = nn.Parameter(torch.rand(width))
        self.drop = nn.Dropout(0.5)
        self.offset = torch.arange(float(width))

    def doubled(self) -> int:
        return self.width * 2

    def forward(
        self, x: torch.Tensor, scale: float = 2.0, *, mask: torch.Tensor | None = None
    ) -> torch.Tensor:
        out = self.drop(x * self.weight * scale + self.offset)
        return out if mask is None else out * mask


def exported_of(module: nn.Module, inputs: Any, calls: KernelCalls) -> ModuleType:
    """The exported file of a module, whose kernel runs in this process and computes what Gated does."""
    task = task_from_module(module, inputs)
    made = imported(python_file(task, origin(task), "module").replace("KERNEL.build()", ""))

    def floats(address: int, count: int) -> torch.Tensor:
        return torch.frombuffer((ctypes.c_float * count).from_address(address), dtype=torch.float32)

    def launch(out: int, x: int, mask: int, weight: int, offset: int, rows: int, cols: int, _: Any) -> None:
        calls.append(rows)
        values = floats(x, rows * cols).view(rows, cols) * floats(weight, cols) * 2.0 + floats(offset, cols)
        floats(out, rows * cols).copy_((values * floats(mask, rows * cols).view(rows, cols)).flatten())

    def build(self: Any) -> Any:
        self.device_type, self.alignment, self._launch = "cpu", 4, launch
        return self

    made.ExportedKernel.build = build
    return made


@pytest.fixture
def calls() -> KernelCalls:
    return []


@pytest.fixture
def optimized(calls: KernelCalls) -> nn.Module:
    module = Gated().eval()
    found = with_kernel(GivenModule.of(module, NAMED), exported_of(module, NAMED, calls))
    assert found is not None
    return found.requires_grad_(False)


def test_calls_are_those_of_the_original(optimized: nn.Module, calls: KernelCalls) -> None:
    original = Gated().eval()
    original.load_state_dict(optimized.state_dict())
    assert inspect.signature(optimized.forward) == inspect.signature(original.forward)
    for inputs, named in (((X,), {"mask": MASK}), ((), {"mask": MASK, "x": X}), ((X, 2.0), {"mask": MASK})):
        assert torch.allclose(optimized(*inputs, **named), original(*inputs, **named))
    assert calls == [64] * 3
    for inputs, named in (((X,), {}), ((X, 3.0), {"mask": MASK}), ((X,), {"scale": 4.0})):
        with pytest.warns(UserWarning, match="the original module runs") as told:
            assert torch.equal(optimized(*inputs, **named), original(*inputs, **named))
        assert [one.filename for one in told] == [__file__]
    with warnings.catch_warnings(record=True) as silent, pytest.raises(TypeError, match="'x'"):
        warnings.simplefilter("always")
        optimized(mask=MASK)
    assert not silent and calls == [64] * 3


def test_it_is_a_module_of_the_same_class_with_the_same_attributes(optimized: nn.Module) -> None:
    assert isinstance(optimized, Gated) and type(optimized).__name__ == "Gated"
    assert optimized.width == 8 and optimized.doubled() == 16
    assert optimized.state_dict().keys() == Gated().state_dict().keys()
    assert copy.deepcopy(optimized)(X, mask=MASK).shape == X.shape


def test_parameters_are_shared_with_the_original(calls: KernelCalls) -> None:
    module = Gated().eval().requires_grad_(False)
    optimized = with_kernel(GivenModule.of(module, NAMED), exported_of(module, NAMED, calls))
    assert optimized is not None
    module.weight.fill_(0.5)
    assert torch.allclose(optimized(**NAMED), module(**NAMED))
    module.weight = nn.Parameter(torch.ones(8), requires_grad=False)
    assert torch.allclose(optimized(**NAMED), module(**NAMED)) and calls == [64, 64]


def test_the_mode_in_which_it_was_traced_is_guarded_where_it_matters(
    optimized: nn.Module, calls: KernelCalls
) -> None:
    with pytest.warns(UserWarning, match="the module is in training mode"):
        assert (optimized.train()(torch.ones(64, 8), mask=torch.ones(64, 8)) == 0).any()
    assert not calls
    optimized.drop.eval()
    assert optimized.training

    class Plain(Gated):
        def __init__(self) -> None:
            super().__init__()
            self.drop = nn.Identity()

    module = Plain().requires_grad_(False)
    both = with_kernel(GivenModule.of(module, NAMED), exported_of(module, NAMED, calls))
    assert both is not None
    for training in (True, False):
        assert torch.allclose(both.train(training)(**NAMED), module(**NAMED))
    assert calls == [64, 64]


def test_a_forward_of_the_instance_is_the_one_that_counts(calls: KernelCalls) -> None:
    module = Gated().eval().requires_grad_(False)
    usual = module.forward
    module.forward = lambda x, *, mask=None: usual(x, mask=mask)  # type: ignore[method-assign]
    optimized = with_kernel(GivenModule.of(module, NAMED), exported_of(module, NAMED, calls))
    assert optimized is not None
    assert str(inspect.signature(optimized.forward)) == "(x, *, mask=None)"
    assert torch.allclose(optimized(**NAMED), module(**NAMED)) and calls == [64]
    with pytest.warns(UserWarning, match="the original module runs"):
        assert torch.equal(optimized(X), module(X))


def test_what_was_optimized_may_be_optimized_again(optimized: nn.Module, calls: KernelCalls) -> None:
    again = copy.deepcopy(optimized)
    assert task_from_module(again, NAMED).source == task_from_module(original_of(again), NAMED).source
    given = GivenModule.of(again, {"x": X[:32], "mask": MASK[:32]})
    assert type(given.module) is Gated and given.module.weight is again.weight
    assert torch.equal(given.module(**NAMED), given.module(**NAMED)) and not calls
    twice = with_kernel(given, exported_of(again, {"x": X[:32], "mask": MASK[:32]}, calls))
    assert twice is not None and type(twice).__mro__[1] is Gated and twice.weight is again.weight
    assert torch.allclose(twice(X[:32], mask=MASK[:32]), again(X[:32], mask=MASK[:32])) and calls == [32, 32]


def test_of_example_inputs_only_the_form_is_kept(tmp_path: Path) -> None:
    given = GivenModule.of(Gated(), [X, 2.0])
    assert given.arguments[0].size == X.shape and given.arguments[1] == 2.0
    assert not any(isinstance(one, torch.Tensor) for one in given.arguments)
