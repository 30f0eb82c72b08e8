"""Traces name the operators that PyTorch runs; what was seen before is not run again."""

import time

import pytest
import torch
from torch import nn

from kernelblaster.policies.expert.capture import capture
from kernelblaster.policies.expert.tracing import TracedModule, trace_module
from kernelblaster.policies.expert.unify import NotUniform
from kernelblaster.tasks.catalog import load_source
from kernelblaster.tasks.module_state import state_of


class Written(nn.Module):
    """Writes a tensor of which there is no view, and one of which there are."""

    def __init__(self, viewed: bool) -> None:
        super().__init__()
        self.viewed = viewed

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        if self.viewed:
            y[:, 0].add_(1)
        else:
            y.add_(1).relu_()
        return y + x


class Numbers(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.min(x, torch.tensor(0.5)) * torch.tensor([1.0, 2.0, 3.0])


def traced(module: nn.Module, *shape: int, device: str = "meta") -> TracedModule:
    with torch.device(device):
        x = torch.empty(shape)
        module = module.to(device)
        return trace_module(module, [x], {"x": x, **state_of(module)})


def operators(trace: TracedModule) -> list[str]:
    return [call.operator for call in trace.needed()]


def test_a_write_is_an_operator_with_a_new_result() -> None:
    trace = traced(Written(viewed=False), 4, 3)
    assert operators(trace) == ["mul.Tensor", "add.Tensor", "relu.default", "add.Tensor"]
    assert trace.needed()[-1].args[0].call.name == "relu"


def test_a_write_to_a_view_reaches_what_it_is_a_view_of() -> None:
    trace = traced(Written(viewed=True), 4, 3)
    assert operators(trace)[-2:] == ["where.self", "add.Tensor"]


def test_numbers_are_traced_by_value() -> None:
    trace = traced(Numbers(), 4, 3)
    values = [call.args[1] for call in trace.needed() if call.operator == "full.default"]
    assert values == [0.5, 1.0, 2.0, 3.0]


def test_statistics_of_a_normalization_are_its_own() -> None:
    trace = traced(nn.Sequential(nn.BatchNorm1d(8), nn.ReLU(inplace=True)), 4, 8)
    assert operators(trace) == ["native_batch_norm.default", "relu.default"]


def test_a_recurrence_is_one_operator_whatever_its_length() -> None:
    trace = traced(nn.LSTM(8, 8, num_layers=2, bidirectional=True), 512, 4, 8)
    assert operators(trace)[-1] == "lstm.input" and operators(trace).count("lstm.input") == 1
    assert [tuple(value.tensor.shape) for value in trace.outputs] == [(512, 4, 16), (4, 4, 8), (4, 4, 8)]


LAYERS = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        layer = lambda: nn.Sequential(nn.Linear(256, 256), nn.LayerNorm(256), nn.GELU())
        self.layers = nn.ModuleList([layer() for _ in range(100)])

    def forward(self, x):
        for layer in self.layers:
            x = x + layer(x)
        return x

def get_inputs():
    return [torch.randn(512, 256)]

def get_init_inputs():
    return []
"""
STEPS = """
import torch
from torch import nn

batch = 16
SMALL = {"batch": 2}

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.Linear(64, 64)

    def forward(self, x):
        h = x[:, 0]
        for t in range(512):
            h = torch.tanh(self.cell(h) + x[:, t])
        return h

def get_inputs():
    return [torch.randn(batch, 512, 64)]

def get_init_inputs():
    return []
"""


@pytest.mark.parametrize(("source", "count"), [(LAYERS, 100), (STEPS, 512)])
def test_deep_modules_are_captured_in_seconds(source: str, count: int) -> None:
    task = load_source("deep", source, "deep.py")
    start = time.process_time()
    graph = capture(task)
    assert time.process_time() - start < 10
    assert sum(node.operator == "addmm.default" for node in graph.nodes) == count


def test_a_loop_over_a_size_is_refused_after_two_traces() -> None:
    task = load_source("loop", STEPS.replace("range(512)", "range(x.shape[1])"), "loop.py")
    start = time.process_time()
    with pytest.raises(NotUniform, match="runs a loop whose length is a size"):
        capture(task)
    assert time.process_time() - start < 10
