"""Simplification finds the same result for less work, and leaves everything else alone."""

from pathlib import Path

import pytest

from kernelblaster.api import load_task
from kernelblaster.policies.expert.graph import Graph, capture
from kernelblaster.policies.expert.lower import initial_plan
from kernelblaster.policies.expert.simplify import simplify

SOURCE = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x, w):
        return BODY

def get_inputs():
    return [torch.randn(48, 40), torch.randn(40, 56)]

def get_init_inputs():
    return []
"""


def graph_of(folder: Path, body: str) -> Graph:
    file = folder / "task.py"
    file.write_text(SOURCE.replace("BODY", body))
    return simplify(capture(load_task(str(file))))


@pytest.mark.parametrize(
    ("body", "operators"),
    [
        ("torch.relu(torch.relu(x)) @ w", ["relu", "mm"]),
        ("torch.abs(torch.exp(x)) @ w", ["exp", "mm"]),
        ("(x * 1 + 0) @ w", ["mm"]),
        ("(x * 2 / 8) @ w", ["mul", "mm"]),
        ("(x @ w).unsqueeze(1).sum(dim=1)", ["mm", "unsqueeze", "squeeze"]),
        ("(x @ w).unsqueeze(1).amax(dim=1, keepdim=True)", ["mm", "unsqueeze"]),
        ("(x @ w).sum(dim=1)", ["sum", "mm", "squeeze"]),
        ("(x @ w).sum(dim=0, keepdim=True)", ["sum", "mm"]),
        ("torch.relu(x - 1) @ w", ["sub", "relu", "mm"]),
        ("torch.abs(torch.tanh(x)) @ w", ["tanh", "abs", "mm"]),
        ("(x * 2.5 + 1) @ w", ["mul", "add", "mm"]),
    ],
)
def test_rules(tmp_path: Path, body: str, operators: list[str]) -> None:
    graph = graph_of(tmp_path, body)
    assert [node.operator.split(".")[0] for node in graph.nodes] == operators
    assert initial_plan(graph).kernels


def test_folded_scalings_keep_their_product(tmp_path: Path) -> None:
    graph = graph_of(tmp_path, "(x * 2 / 8) @ w")
    assert graph.nodes[0].arguments["other"].value == 0.25


def test_a_product_that_is_read_twice_is_kept(tmp_path: Path) -> None:
    graph = graph_of(tmp_path, "(x @ w) / (x @ w).sum(dim=1, keepdim=True)")
    assert [n.operator.split(".")[0] for n in graph.nodes].count("mm") == 2
    shared = graph_of(tmp_path, "(lambda y: y / y.sum(dim=1, keepdim=True))(x @ w)")
    assert [n.operator.split(".")[0] for n in shared.nodes] == ["mm", "sum", "div"]


def test_a_chain_with_a_vector_needs_no_product_of_matrices() -> None:
    graph = simplify(capture(load_task("core/level2/matmul_chain_vector")))
    products = [node for node in graph.nodes if node.operator == "mm.default"]
    assert all(str(product.results[0].shape[1]) == "1" for product in products)
