"""Modules become graphs whose shapes are expressions of the signature's sizes."""

from pathlib import Path

import pytest

from kernelblaster.api import load_task
from kernelblaster.policies.expert.capture import capture
from kernelblaster.policies.expert.graph import Graph, Reference, UncoveredOperators
from kernelblaster.policies.expert.lower import initial_plan
from kernelblaster.policies.expert.unify import NotUniform

RECURRENCE = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(8, 8)

    def forward(self, x):
        return self.gru(x)[0]

def get_inputs():
    return [torch.randn(4, 3, 8)]

def get_init_inputs():
    return []
"""


def shapes(graph: Graph) -> dict[str, list[str]]:
    return {node.name: [str(extent) for extent in node.results[0].shape] for node in graph.nodes}


def test_shapes_are_symbolic() -> None:
    graph = capture(load_task("core/level2/matmul_bias_softmax"))
    assert [node.operator for node in graph.nodes] == [
        "mm.default",
        "mul.Tensor",
        "add.Tensor",
        "_softmax.default",
    ]
    assert set(map(tuple, shapes(graph).values())) == {("a_0", "b_1")}
    assert graph.outputs == (Reference("_softmax"),)


def test_parameters_go_by_their_names_in_the_signature() -> None:
    graph = capture(load_task("core/level2/layernorm_linear_residual"))
    first = graph.nodes[0]
    assert first.operator == "native_layer_norm.default"
    assert first.arguments["weight"] == Reference("norm_weight")


def test_updates_of_running_statistics_are_left_out() -> None:
    graph = capture(load_task("core/level1/batch_norm"))
    assert len(graph.nodes) == 1


def test_height_and_width_are_told_apart_where_all_images_are_square() -> None:
    graph = capture(load_task("core/level3/lenet"))
    pooled = next(node for node in graph.nodes if node.name == "relu_1").results[0].shape
    assert [str(extent) for extent in pooled[2:]] == ["(x_2 - 4) / 2 - 4", "(x_3 - 4) / 2 - 4"]
    assert graph.sizes[-1]["x_2"] != graph.sizes[-1]["x_3"]


SORTED = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return torch.sort(x, dim=1).values + torch.kthvalue(x * 2, 3, dim=1, keepdim=True).values

def get_inputs():
    return [torch.randn(16, 32)]

def get_init_inputs():
    return []
"""


def test_uncovered_operators_are_all_named(tmp_path: Path) -> None:
    file = tmp_path / "sorted.py"
    file.write_text(SORTED)
    graph = capture(load_task(str(file)))
    with pytest.raises(UncoveredOperators, match=r"cover sort\.default, kthvalue\.default\.") as caught:
        initial_plan(graph)
    assert caught.value.operators == ("sort.default", "kthvalue.default")


def test_copies_that_depend_on_the_sizes_are_left_out() -> None:
    graph = capture(load_task("core/level3/decoder_block"))
    assert "clone.default" not in {node.operator for node in graph.nodes}


def test_a_recurrence_is_named_as_the_module_calls_it(tmp_path: Path) -> None:
    file = tmp_path / "recurrence.py"
    file.write_text(RECURRENCE)
    assert "gru.input" in {node.operator for node in capture(load_task(str(file))).nodes}


def test_operators_that_change_their_operands_are_replaced() -> None:
    graph = capture(load_task("core/level1/cosine_similarity"))
    assert "clamp.Tensor" in {node.operator for node in graph.nodes}


def test_a_module_that_changes_with_the_sizes_is_refused(tmp_path: Path) -> None:
    source = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x) if x.shape[0] > 100 else torch.tanh(torch.relu(x))

def get_inputs():
    return [torch.randn(256, 64)]

def get_init_inputs():
    return []
"""
    file = tmp_path / "changing.py"
    file.write_text(source)
    with pytest.raises(NotUniform, match=r"other operators at other sizes \(tanh\.default\)"):
        capture(load_task(str(file)))


def test_a_loop_over_a_size_is_named() -> None:
    file = Path(__file__).parents[2] / "tasks" / "data" / "users" / "rnn_loop.py"
    with pytest.raises(NotUniform, match=r"runs a loop whose length is a size \(add\.Tensor, .*--model"):
        capture(load_task(str(file)))
