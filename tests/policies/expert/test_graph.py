"""Modules become graphs whose shapes are expressions of the signature's sizes."""

from pathlib import Path

import pytest

from kernelblaster.api import load_task
from kernelblaster.policies.expert.graph import Graph, Reference, capture
from kernelblaster.policies.expert.lower import UncoveredOperators, initial_plan
from kernelblaster.policies.expert.unify import NotUniform


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


def test_uncovered_operators_are_all_named() -> None:
    graph = capture(load_task("core/level2/gated_cumsum_normalize"))
    with pytest.raises(UncoveredOperators, match=r"does not cover cumsum\.default\.") as caught:
        initial_plan(graph)
    assert caught.value.operators == ("cumsum.default",)


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
    with pytest.raises(NotUniform, match="other operators at other sizes"):
        capture(load_task(str(file)))
