"""Simplification finds the same result for less work, and leaves everything else alone."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from kernelblaster.api import load_task
from kernelblaster.policies.expert.capture import capture
from kernelblaster.policies.expert.graph import Graph, needed
from kernelblaster.policies.expert.lower import initial_plan
from kernelblaster.policies.expert.simplify import simplify
from tests.policies.expert.interpreter import random_tensors, run

SOURCE = """
import math
import torch
import torch.nn as nn
import torch.nn.functional as F

class Model(nn.Module):
    def forward(self, x, w, b, y):
        return BODY

def get_inputs():
    return [torch.randn(48, 40), torch.randn(40, 56), torch.randn(56), torch.randn(4, 48, 40)]

def get_init_inputs():
    return []
"""

# What a module does, and the operators that are left of it.
FREE = {
    "torch.relu(torch.relu(x)) @ w": "relu mm",
    "torch.abs(torch.exp(x)) @ w": "exp mm",
    "-(-x) @ w": "mm",
    "(x * 1 + 0) @ w": "mm",
    "(x * 2 / 8) @ w": "mm mul",
    "(x * 2) @ (w / 3)": "mm mul",
    "(x * 3).sum(dim=1)": "sum mul",
    "(x / math.sqrt(x.shape[1])) @ w / math.sqrt(x.shape[1])": "mm mul",
    "torch.log(torch.softmax(x, dim=1))": "_log_softmax",
    "torch.exp(torch.log_softmax(x, dim=1))": "_softmax",
    "x.t().t().flatten().reshape(x.shape) * 2": "mul",
    "y.transpose(0, 1).transpose(1, 2).relu()": "relu",
    "x.sum(dim=0).sum(dim=0)": "sum",
    "y.amax(dim=2).amax(dim=0)": "amax",
    "y.mean(dim=1, keepdim=True).mean(dim=2, keepdim=True)": "mean",
    "(x @ w).unsqueeze(1).sum(dim=1)": "mm",
    "(x @ w).unsqueeze(1).amax(dim=1, keepdim=True)": "mm",
    "(x @ w).sum(dim=1)": "sum mm",
    "(x @ w).sum(dim=0, keepdim=True)": "sum mm",
    "(x @ w).sum()": "sum sum mm",
    "(x @ w).mean(dim=1)": "sum mm div",
    "F.linear(x, w.t(), b).sum(dim=1)": "sum mm sum add",
    "F.linear(x, w.t(), b).mean(dim=0)": "sum mm mul add div",
    "F.linear(y, w.t(), b).sum(dim=-1)": "sum mm sum add",
    "((x @ w) * b).sum(dim=1)": "mm mm",
    "x @ w @ b.unsqueeze(1)": "mm mm",
    "x[:1] @ (x.t() @ x)": "mm mm",
    "torch.diagonal(x @ x.t())": "mul sum",
    "torch.trace(x @ x.t())": "mul sum",
    "torch.diag(b) @ w.t()": "mul",
    "w @ torch.diag(b)": "mul",
    "((x == -math.inf).logical_not()).any(dim=1)": "amax eq logical_not",
    "torch.relu(x - 1) @ w": "sub relu mm",
    "torch.abs(torch.tanh(x)) @ w": "tanh abs mm",
    "(x * 2.5 + 1) @ w": "mul add mm",
    "torch.relu(x @ w).sum(dim=1)": "mm relu sum",
    "(lambda z: z / z.sum(dim=1, keepdim=True))(x @ w)": "mm sum div",
}
FIXED = {"(x @ w).view(48, 8, 7).sum(dim=2)": "sum mm", "(x @ w).view(4, 12, 56).sum(dim=1)": "sum mm"}


def captured(folder: Path, body: str) -> Graph:
    file = folder / "task.py"
    file.write_text(SOURCE.replace("BODY", body))
    return capture(load_task(str(file)))


@pytest.fixture(scope="module")
def graphs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Graph]:
    """All modules of the table, captured as one with many outputs, and then taken apart."""
    found = {}
    for number, table in enumerate((FREE, FIXED)):
        folder = tmp_path_factory.mktemp(f"simplify{number}")
        whole = captured(folder, f"({', '.join(table)},)")
        for body, output, name in zip(table, whole.outputs, whole.signature.outputs, strict=True):
            signature = whole.signature.model_copy(update={"outputs": (name,)})
            nodes = needed(whole.nodes, [output])
            found[body] = replace(whole, signature=signature, nodes=nodes, outputs=(output,))
    return found


def graph_of(folder: Path, body: str) -> Graph:
    return simplify(captured(folder, body))


def operators(graph: Graph) -> list[str]:
    """Without views, which cost nothing."""
    views = ("view", "permute", "unsqueeze", "squeeze", "expand", "slice", "diagonal")
    found = [node.operator.split(".")[0] for node in graph.nodes]
    return [name for name in found if name not in views]


@pytest.mark.parametrize("body", [*FREE, *FIXED])
def test_rules_keep_the_result(graphs: dict[str, Graph], body: str) -> None:
    before = graphs[body]
    after = simplify(before)
    assert operators(after) == (FREE | FIXED)[body].split()
    assert initial_plan(after).kernels
    tensors = random_tensors(before, 0)
    for one, other in zip(run(before, tensors, 0), run(after, tensors, 0), strict=True):
        assert one.shape == other.shape
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)


def test_folded_scalings_keep_their_product(tmp_path: Path) -> None:
    graph = graph_of(tmp_path, "(x * 2 / 8) @ w")
    assert graph.nodes[-1].arguments["other"].value == 0.25


def test_half_precisions_are_scaled_where_the_module_does(tmp_path: Path) -> None:
    file = tmp_path / "task.py"
    file.write_text(SOURCE.replace("BODY", "(x / 8) @ w"))
    graph = simplify(capture(load_task(str(file), "float16")))
    assert operators(graph) == ["div", "mm"]


def test_a_chain_with_a_vector_needs_no_product_of_matrices() -> None:
    graph = simplify(capture(load_task("core/level2/matmul_chain_vector")))
    products = [node for node in graph.nodes if node.operator == "mm.default"]
    assert all(str(product.results[0].shape[1]) == "1" for product in products)
