"""Modules of every kind that public suites have load, with the sizes that are theirs."""

from pathlib import Path

import pytest

from kernelblaster.records import Task
from kernelblaster.tasks.catalog import load_source, load_task
from kernelblaster.tasks.fitness import fitness_of
from tests.tasks.kinds import KINDS, source_of

NETWORKS = Path(__file__).parent / "data" / "networks"
# The sizes that vary, and those that follow from them.
SIZES = {
    "product_of_4d": ({"x_0", "x_1", "x_2", "x_3", "y_3"}, set()),
    "kronecker": ({"x_0", "x_1", "y_0", "y_1"}, {"out_0", "out_1"}),
    "conv2d_same": ({"x_0", "x_2", "x_3"}, set()),
    "max_pool_ceil": ({"x_0", "x_1", "x_2", "x_3"}, {"out_2", "out_3"}),
    "adaptive_avg": ({"x_0", "x_1", "x_2", "x_3"}, set()),
    "image_to_columns": ({"x_0", "x_1", "x_2", "x_3"}, {"out_1", "out_2"}),
    "patches_by_view": ({"x_0", "x_2", "x_3"}, {"out_1"}),
}


def loaded(name: str) -> Task:
    return load_source(name, source_of(name), f"{name}.py")


def sizes(task: Task, kind: str) -> set[str]:
    return {size.name for size in task.signature.sizes if size.kind == kind}


@pytest.mark.parametrize("name", KINDS)
def test_a_kind_loads_and_is_fit(name: str) -> None:
    task = loaded(name)
    assert fitness_of(task).fit, fitness_of(task).problems
    assert task.small is not None and {w.name for w in task.workloads} >= {"primary", "odd", "near", "tiny"}


@pytest.mark.parametrize("name", SIZES)
def test_a_size_is_its_own_or_follows_from_others(name: str) -> None:
    task = loaded(name)
    assert (sizes(task, "free"), sizes(task, "derived")) == SIZES[name]


@pytest.mark.parametrize("name", sorted(path.stem for path in NETWORKS.glob("*.py")))
def test_a_network_loads_and_is_fit(name: str) -> None:
    task = load_task(str(NETWORKS / f"{name}.py"))
    assert fitness_of(task).fit, fitness_of(task).problems
    assert task.small is not None


POOLED = """
import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.pool = torch.nn.{pool}

    def forward(self, x):
        return self.pool(x)

def get_inputs():
    return [torch.rand(8, 32, {height}, {width})]

def get_init_inputs():
    return []
"""


@pytest.mark.parametrize(
    ("pool", "height", "width"),
    [
        ("AvgPool2d(11)", 352, 352),  # 32 channels, and 32 windows: a coincidence
        ("MaxPool2d(2)", 64, 64),
        ("MaxPool2d(kernel_size=3, stride=8)", 67, 260),
    ],
)
def test_an_extent_that_happens_to_equal_another_is_a_size_of_its_own(
    pool: str, height: int, width: int
) -> None:
    task = load_source("p", POOLED.format(pool=pool, height=height, width=width), "p.py")
    assert task.signature.outputs[0].dims == ("x_0", "x_1", "out_2", "out_3")
    assert sizes(task, "derived") == {"out_2", "out_3"}


STATEFUL = """
import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.mask = torch.tril(torch.ones(16, 16))
        self.total = torch.zeros(16)

    def forward(self, x):
        {forward}

def get_inputs():
    return [torch.rand(64, 16)]

def get_init_inputs():
    return []
"""


def test_tensors_in_attributes_are_given_to_candidates() -> None:
    source = STATEFUL.format(forward="return x @ self.mask + self.total")
    task = load_source("a", source, "a.py")
    assert [parameter.name for parameter in task.signature.parameters] == ["mask", "total"]
    assert fitness_of(task).fit


def test_a_result_that_depends_on_the_calls_before_is_unfit() -> None:
    source = STATEFUL.format(forward="self.total = self.total + x.sum(0)\n        return x + self.total")
    problems = fitness_of(load_source("a", source, "a.py")).problems
    assert len(problems) == 1 and "depends on the calls before" in problems[0]


GLOBALS = """
import torch

rows, width = 4096, 512
SMALL = {"rows": 9, "width": 12}

class Model(torch.nn.Module):
    def forward(self, x):
        return x + torch.ones(width)

def get_inputs():
    return [torch.rand(rows, width)]

def get_init_inputs():
    return []
"""


def test_a_forward_that_reads_the_files_constants_runs_in_both_constructions() -> None:
    task = load_source("g", GLOBALS, "g.py")
    assert task.small is not None and task.small.sizes == {"x_0": 9, "x_1": 12}
    assert fitness_of(task).fit
