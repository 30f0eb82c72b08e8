"""Convolutions and poolings mean what PyTorch means by them, at all kinds of windows."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from kernelblaster.policies.expert.expression import Gather
from kernelblaster.policies.expert.graph import Graph, Node, Reference, Result, UncoveredOperators
from kernelblaster.policies.expert.index import number, variable
from kernelblaster.policies.expert.lower import initial_plan
from kernelblaster.policies.expert.plan import Plan
from kernelblaster.policies.expert.product import as_product
from kernelblaster.policies.expert.schedules.products import ThreadPerResult
from kernelblaster.policies.expert.schedules.rows import BlockPerRow
from kernelblaster.policies.expert.techniques import load_techniques
from kernelblaster.policies.expert.window_extents import window_counts
from kernelblaster.records import Signature
from kernelblaster.records.signature import Size, Tensor
from tests.policies.expert.plan_runner import run_plan

LARGER = 4  # by so much are the extents of the second workload larger
X, Y, Z = (2, 6, 23), (2, 6, 13, 12), (2, 4, 9, 8, 7)


@dataclass(frozen=True)
class Case:
    """An operator on an operand `x` of a shape, with a filter `w` and a bias `b` where they have one."""

    operator: str
    shape: tuple[int, ...]
    arguments: tuple[Any, ...]
    filters: tuple[int, ...] = ()
    bias: int = 0

    def __str__(self) -> str:
        filters = f" {self.filters}" if self.filters else ""
        return f"{self.operator.split('.')[0]} {self.shape}{filters} {self.arguments}"

    @property
    def target(self) -> Any:
        name, overload = self.operator.split(".")
        return getattr(getattr(torch.ops.aten, name), overload)

    def arguments_by_name(self) -> dict[str, Any]:
        """With defaults."""
        given = {argument.name: argument.default_value for argument in self.target._schema.arguments}
        return given | dict(zip(given, self.arguments, strict=False))

    def tensors(self, larger: int = 0) -> dict[str, torch.Tensor]:
        dimensions = 3 if len(self.shape) == 5 else 2 if len(self.shape) == 4 else 1
        kept = self.shape[:-dimensions]
        shapes = {"x": (*kept, *(extent + larger for extent in self.shape[-dimensions:]))}
        shapes |= {"w": self.filters} if self.filters else {}
        shapes |= {"b": (self.bias,)} if self.bias else {}
        generator = torch.Generator().manual_seed(0)
        return {n: torch.randn(s, generator=generator, dtype=torch.float64) for n, s in shapes.items()}

    def wanted(self, tensors: Mapping[str, torch.Tensor]) -> torch.Tensor:
        found = self.target(*(tensors[a] if isinstance(a, str) else a for a in self.arguments))
        return found[0] if isinstance(found, tuple) else found

    def sizes(self, tensors: Mapping[str, torch.Tensor]) -> dict[str, int]:
        known = {**tensors, "out": self.wanted(tensors)}
        return {f"{name}_{place}": n for name, t in known.items() for place, n in enumerate(t.shape)}

    def plan(self) -> Plan:
        found = self.tensors()
        known = {**found, "out": self.wanted(found)}
        dims = {name: tuple(f"{name}_{place}" for place in range(t.dim())) for name, t in known.items()}
        tensors = {n: Tensor(name=n, role="input", dtype="float64", dims=d) for n, d in dims.items()}
        output = tensors.pop("out")
        sizes = tuple(Size(name=dim, kind="free") for named in dims.values() for dim in named)
        shape = tuple(variable(dim) for dim in output.dims)
        results = (Result(shape, "float64"),) * len(self.target._schema.returns)
        arguments = {name: _argument(value) for name, value in self.arguments_by_name().items()}
        graph = Graph(
            signature=Signature(
                outputs=(output,), inputs=tuple(tensors.values()), parameters=(), sizes=sizes
            ),
            nodes=(Node("found", self.operator, arguments, results),),
            outputs=(Reference("found"),),
            sizes=tuple(self.sizes(self.tensors(larger)) for larger in (0, LARGER)),
        )
        return initial_plan(graph)


def _argument(value: Any) -> Any:
    if isinstance(value, str):
        return Reference(value)
    if isinstance(value, list | tuple):
        return tuple(_argument(part) for part in value)
    return number(value) if isinstance(value, int) and not isinstance(value, bool) else value


def conv(shape: tuple[int, ...], filters: tuple[int, ...], bias: bool = False, **given: Any) -> Case:
    count = len(shape) - 2
    groups, transposed = given.get("groups", 1), given.get("transposed", False)
    defaults = {"stride": 1, "padding": 0, "dilation": 1, "output_padding": 0}
    lists = {name: given.get(name, default) for name, default in defaults.items()}
    each = [[value] * count if isinstance(value, int) else list(value) for value in lists.values()]
    arguments = ("x", "w", "b" if bias else None, *each[:3], transposed, each[3], groups)
    results = filters[1] * groups if transposed else filters[0]
    return Case("convolution.default", shape, arguments, filters, results if bias else 0)


def pool(name: str, shape: tuple[int, ...], *arguments: Any) -> Case:
    return Case(f"{name}.default", shape, ("x", *arguments))


CONVOLUTIONS = (
    conv(X, (4, 6, 3)),
    conv(X, (4, 6, 4), bias=True, stride=2, padding=2, dilation=3),
    conv(X, (6, 2, 5), groups=3, padding=2),
    conv(Y, (3, 6, 3, 3), bias=True, padding=1),
    conv(Y, (3, 6, 2, 5), stride=(3, 2), padding=(0, 2), dilation=(2, 1)),
    conv(Y, (4, 3, 3, 1), bias=True, groups=2, stride=2),
    conv(Y, (6, 1, 3, 3), bias=True, groups=6, padding=1),
    conv(Y, (12, 1, 2, 2), groups=6, stride=2),
    conv(Y, (5, 6, 1, 1), bias=True),
    conv(Y, (5, 6, 1, 1), stride=2, padding=1),
    conv(Y, (6, 1, 1, 1), bias=True, groups=6),
    conv((1, 64, 6, 6), (3, 64, 3, 3), padding=1),  # few results over many elements
    conv(Z, (4, 2, 3, 2, 3), bias=True, stride=(1, 2, 1), padding=(1, 0, 1), groups=2),
)
TRANSPOSED = (
    conv(X, (6, 4, 3), bias=True, transposed=True),
    conv(X, (6, 4, 4), transposed=True, stride=3, padding=1, output_padding=2),
    conv(X, (6, 2, 3), transposed=True, stride=2, padding=1, dilation=3),
    conv(Y, (6, 3, 4, 4), bias=True, transposed=True, stride=2, padding=1),
    conv(Y, (6, 2, 3, 5), transposed=True, stride=(2, 1), padding=(0, 2), output_padding=(1, 0), groups=3),
    conv(Y, (6, 2, 3, 3), transposed=True, stride=5, padding=1, dilation=2, output_padding=4),
    conv(Y, (6, 2, 1, 2), transposed=True, stride=3),
    conv(Y, (6, 1, 3, 3), bias=True, transposed=True, stride=2, groups=6),
    conv(Z, (4, 1, 3, 2, 3), transposed=True, stride=2, padding=1, groups=4),
)
MAX = (
    pool("max_pool2d_with_indices", Y, [2, 2], [1, 1]),
    pool("max_pool2d_with_indices", Y, [3, 3], [2, 2], [1, 1], [1, 1], True),
    pool("max_pool2d_with_indices", Y, [1, 4], [2, 3], [0, 2], [1, 2]),
    pool("max_pool2d_with_indices", Y, [3], [], [1], [2], True),
    pool("max_pool2d_with_indices", Y, [1, 1], [2, 2]),
    pool("max_pool2d_with_indices", Y[1:], [2, 2]),
    pool("max_pool3d_with_indices", Z, [2, 3, 1], [2, 2, 2], [1, 1, 0], [1, 1, 1], True),
    pool("adaptive_max_pool2d", Y, [5, 2]),
    pool("adaptive_max_pool3d", Z, [3, 1, 4]),
)
MEAN = (
    pool("avg_pool2d", Y, [2, 2]),
    pool("avg_pool2d", Y, [3, 3], [2, 2], [1, 1], True),
    pool("avg_pool2d", Y, [3, 3], [2, 2], [1, 1], True, False),
    pool("avg_pool2d", Y, [4, 3], [3, 3], [0, 0], True),
    pool("avg_pool2d", Y, [2, 5], [1, 1], [1, 2], False, False),
    pool("avg_pool2d", Y, [2, 2], [2, 2], [1, 1], False, True, 3),
    pool("avg_pool2d", Y[1:], [2, 2], [1, 1], [1, 1]),
    pool("avg_pool3d", Z, [2, 2, 2], [1, 2, 3], [1, 1, 1], True),
    pool("avg_pool3d", Z, [3, 2, 2], [2, 2, 2], [1, 0, 1], True, False),
    pool("_adaptive_avg_pool2d", Y, [1, 5]),
    pool("_adaptive_avg_pool2d", Y, [7, 20]),
    pool("_adaptive_avg_pool3d", Z, [2, 1, 4]),
)


@pytest.mark.parametrize("case", (*CONVOLUTIONS, *TRANSPOSED, *MAX, *MEAN), ids=str)
def test_windows_are_pytorchs(case: Case) -> None:
    plan = case.plan()
    for larger in (0, LARGER):
        tensors = case.tensors(larger)
        (found,) = run_plan(plan, tensors, case.sizes(tensors))
        torch.testing.assert_close(found, case.wanted(tensors))


@pytest.mark.parametrize("case", (*MAX, *MEAN), ids=str)
def test_poolings_pass_on_what_is_no_number(case: Case) -> None:
    """NaN is the largest of its window, and minus infinity is no smaller than the padding."""
    tensors = case.tensors()
    flat = tensors["x"].view(-1)
    flat[5::11], flat[2::7], flat[40::53] = -math.inf, math.inf, math.nan
    tensors["x"][..., :3, :3] = -math.inf
    (found,) = run_plan(case.plan(), tensors, case.sizes(tensors))
    torch.testing.assert_close(found, case.wanted(tensors), equal_nan=True)


def test_a_thread_has_a_result_but_of_few_long_ones_a_block() -> None:
    usual, few = conv((2, 8, 96, 96), (8, 8, 3, 3)).plan(), conv((1, 64, 6, 6), (3, 64, 3, 3)).plan()
    assert [(k.family, type(k.schedule)) for k in usual.kernels] == [("matrix_product", ThreadPerResult)]
    assert [(k.family, type(k.schedule)) for k in few.kernels] == [("row_reduction", BlockPerRow)]


def test_a_strided_transposed_convolution_skips_what_does_not_reach_a_result() -> None:
    (kernel,) = conv(Y, (6, 3, 4, 4), transposed=True, stride=2, padding=1).plan().kernels
    assert [str(axis.extent) for axis in kernel.reduced] == ["6", "2", "2"]


def test_a_convolution_of_single_pixels_is_a_matrix_product() -> None:
    plan = conv(Y, (5, 6, 1, 1), bias=True).plan()
    product = as_product(plan.kernels[0], plan)
    assert product is not None
    assert [axis.name for axis in (*product.rows, *product.columns)] == ["i1", "i0", "i2", "i3"]


@pytest.mark.parametrize(("before", "kernels"), [("relu", 1), ("exp", 2)])
def test_what_comes_before_a_convolution_is_computed_for_every_window_only_if_it_is_plain(
    before: str, kernels: int
) -> None:
    graph = conv(Y, (3, 6, 3, 3), padding=1).plan().graph
    assert graph is not None
    shape = tuple(variable(f"x_{place}") for place in range(4))
    first = Node("first", f"{before}.default", {"self": Reference("x")}, (Result(shape, "float64"),))
    node = replace(graph.nodes[0], arguments={**graph.nodes[0].arguments, "input": Reference("first")})
    fused = next(
        load_techniques()["kernel_fusion"](plan := initial_plan(replace(graph, nodes=(first, node)))), plan
    )
    assert len(fused.kernels) == kernels


def test_the_places_of_the_largest_elements_are_not_covered() -> None:
    case = MAX[0]
    graph = case.plan().graph
    assert graph is not None
    with pytest.raises(UncoveredOperators, match="the places that max_pool2d_with_indices"):
        initial_plan(replace(graph, outputs=(Reference("found", 1),)))


def test_upsampling_by_a_fraction_looks_elements_up() -> None:
    (kernel,) = pool("upsample_nearest2d", Y, [15, 20]).plan().kernels
    assert any(isinstance(load, Gather) for load in kernel.loads)


@pytest.mark.parametrize("case", (*CONVOLUTIONS, *TRANSPOSED, *MAX[:7], *MEAN[:9]), ids=str)
def test_extents_follow_from_those_of_the_operand(case: Case) -> None:
    """At sizes of all remainders, of which a few workloads may leave some out."""
    given = case.arguments_by_name()
    if case.filters:
        given["weight"] = SimpleNamespace(tensor=torch.empty(case.filters))
    counts = window_counts(case.operator, given)
    for larger in range(8):
        tensors = case.tensors(larger)
        extents = tensors["x"].shape[-len(counts) :]
        found = [count(extent) for count, extent in zip(counts, extents, strict=True)]
        assert found == list(case.wanted(tensors).shape[-len(counts) :])
