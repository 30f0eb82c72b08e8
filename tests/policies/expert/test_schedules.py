"""Every field of every schedule means something, and every technique says what it is for and why not."""

import ast
from collections.abc import Iterator
from dataclasses import fields, replace
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
from tree_sitter import Node

from kernelblaster.api import load_task
from kernelblaster.devices.specs import gpu_named
from kernelblaster.policies import expert
from kernelblaster.policies.expert.capture import capture
from kernelblaster.policies.expert.emit import emit, load_emitters
from kernelblaster.policies.expert.expression import Expression, Gather, Load, rebuild
from kernelblaster.policies.expert.kernel import Kernel
from kernelblaster.policies.expert.lower import initial_plan
from kernelblaster.policies.expert.operator_table import operator_table
from kernelblaster.policies.expert.plan import Plan
from kernelblaster.policies.expert.schedules import all_schedules
from kernelblaster.policies.expert.schedules.attention import OnlineAttention
from kernelblaster.policies.expert.schedules.columns import Columns, ThreadPerColumn
from kernelblaster.policies.expert.schedules.gathered import GatheredHalves, GatheredProduct
from kernelblaster.policies.expert.schedules.packing import Packing
from kernelblaster.policies.expert.schedules.phases import InterleavedPhases
from kernelblaster.policies.expert.schedules.pointwise import (
    BlockRowMap,
    ElementPerThread,
    FlatVectors,
    TransposedTiles,
    WarpRowMap,
)
from kernelblaster.policies.expert.schedules.products import (
    MmaProduct,
    ThreadPerResult,
    TiledProduct,
    WgmmaProduct,
)
from kernelblaster.policies.expert.schedules.recurrences import PersistentSteps, StepByWarps, StepPerLaunch
from kernelblaster.policies.expert.schedules.rows import BlockPerRow, BlockRows, ClusterRows, WarpRows
from kernelblaster.policies.expert.schedules.scans import ScanColumns, ScanRows, ThreadPerScan
from kernelblaster.policies.expert.schedules.schedule import Schedule
from kernelblaster.policies.expert.schedules.windows import WindowPatches
from kernelblaster.policies.expert.simplify import simplify
from kernelblaster.policies.expert.technique_table import technique_table
from kernelblaster.policies.expert.techniques import load_techniques
from kernelblaster.tasks.cuda_source import CudaSource, Function, walk

ROOT = Path(expert.__file__).parent
DOCS = Path(__file__).parents[3] / "docs"
SOURCE = """import torch, torch.nn as nn
rows, columns = 4096, 1024
SMALL = {"rows": 8, "columns": 12}
class Model(nn.Module):
    def forward(self, x, w, b):
        scans = x.cumsum(1), x.cumsum(0)
        return torch.softmax(x, 1), x.sum(0), x.t().contiguous(), x @ w, x * b, torch.relu(x), *scans
def get_inputs():
    return [torch.randn(rows, columns), torch.randn(columns, columns), torch.randn(columns)]
def get_init_inputs():
    return []
"""
EXAMPLES: tuple[tuple[str, Schedule], ...] = (
    ("relu", ElementPerThread()),
    ("relu", FlatVectors(4)),
    ("copy", TransposedTiles()),
    ("mul", WarpRowMap(4)),
    ("mul", BlockRowMap(4)),
    ("softmax", BlockPerRow()),
    ("softmax", WarpRows(register_elements=16)),
    ("softmax", BlockRows(register_elements=16)),
    ("softmax", ClusterRows(2, 1, 66, 4, 8, unroll=4)),
    ("sum", ThreadPerColumn()),
    ("sum", Columns(4)),
    ("cumsum", ThreadPerScan()),
    ("cumsum", ScanRows(2, 4, 16)),
    ("cumsum_1", ScanColumns(2)),
    ("mm", ThreadPerResult()),
    ("mm", TiledProduct(64, 64, 16, 4, 4, flush=1024)),
    ("packed", MmaProduct()),
    ("packed", WgmmaProduct()),
    ("gathered", GatheredProduct(64, 128, 16, 1, 8)),
    ("halves", GatheredHalves(64, 128, 32, 1, 4, inner_terms=48)),
    ("phases", InterleavedPhases(32, 128, 32, 1, 4)),
    ("windows", WindowPatches((4,), 4, 4)),
    ("attention", OnlineAttention(1, 4, 32, 64, 64)),
    ("lstm_0", StepPerLaunch()),
    ("lstm_0", StepByWarps()),
    ("persistent", PersistentSteps(16, 2, 4, 4)),
)


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    file = tmp_path_factory.mktemp("task") / "task.py"
    file.write_text(SOURCE)
    return initial_plan(capture(load_task(str(file))))


@cache
def convolved() -> Plan:
    first = initial_plan(capture(load_task("core/level1/conv2d_3x3")))
    return next(load_techniques()["implicit_matrix_product"](first))


@cache
def spread() -> Plan:
    first = initial_plan(capture(load_task("core/level1/conv_transpose2d")))
    return next(load_techniques()["interleaved_phases"](first))


@cache
def depthwise() -> Plan:
    return initial_plan(capture(load_task("core/level1/conv2d_depthwise")))


@cache
def attended() -> Plan:
    first = initial_plan(simplify(capture(load_task("core/level1/attention"))))
    fused = next(load_techniques()["kernel_fusion"](first))
    return next(load_techniques()["online_attention"](fused))


@cache
def recurrent() -> Plan:
    return initial_plan(capture(load_task("core/level3/lstm")))


def place_of(plan: Plan, name: str) -> tuple[Plan, Kernel]:
    """The plan with a kernel of that name, and the kernel; `packed` is the product on packed operands,
    `gathered` a convolution on a gathered one, `attention` one with online softmax, `lstm_0` a
    recurrent layer, `persistent` one that loops over its steps."""
    if name == "attention":
        plan, name = attended(), "bmm"
    if name == "lstm_0":
        plan = recurrent()
    if name == "persistent":
        plan, name = next(load_techniques()["persistent_recurrence"](recurrent())), "lstm_0_kernel"
    if name == "gathered":
        plan, name = convolved(), "convolution_kernel"
    if name == "halves":
        plan, name = next(load_techniques()["scaled_half_operands"](convolved())), "convolution_kernel"
    if name == "phases":
        plan, name = spread(), "convolution_kernel"
    if name == "windows":
        plan, name = depthwise(), "convolution_kernel"
    if name == "packed":
        plan, name = next(load_techniques()["split_operand_tensor_cores"](plan)), "mm"
    return plan, next(k for k in plan.kernels if k.name.startswith(name) and k.family != "pack")


def other(value: object) -> object:
    """Another value of the same type."""
    if isinstance(value, str):
        return "double" if value == "float" else "float"
    if isinstance(value, bool):
        return not value
    if isinstance(value, tuple):
        return tuple(map(other, value))
    return value * 2 if isinstance(value, int) and value else 4


def test_every_schedule_has_an_emitter_and_an_example() -> None:
    assert set(load_emitters()) == set(all_schedules())
    assert {type(example) for _, example in EXAMPLES} | {Packing} == set(all_schedules())


@pytest.mark.parametrize(("name", "schedule"), EXAMPLES, ids=lambda value: type(value).__name__)
def test_every_field_changes_the_source(plan: Plan, name: str, schedule: Schedule) -> None:
    whole, kernel = place_of(plan, name)
    sources = [emit(whole.with_kernel(kernel, replace(kernel, schedule=schedule)))]
    for field in fields(schedule):
        changed = replace(schedule, **{field.name: other(getattr(schedule, field.name))})
        sources.append(emit(whole.with_kernel(kernel, replace(kernel, schedule=changed))))
        assert sources[-1] not in sources[:-1], field.name


def declared(kernel: Node) -> Iterator[str]:
    """The variables that a kernel declares, in its body and in functions within it."""
    for node in walk(kernel):
        for found in node.children_by_field_name("declarator"):
            if node.type in ("declaration", "init_declarator", "parameter_declaration"):
                names = [part for part in walk(found) if part.type == "identifier"]
                yield from (str(part.text, "utf-8") for part in names[:1] if found.type != "init_declarator")


def renamed(plan: Plan, kernel: Kernel, names: list[str]) -> Plan:
    """A plan of one kernel, with tensors that have other names."""
    new = dict(zip(plan.buffers, names, strict=False))

    def change(part: Expression) -> Expression:
        return replace(part, buffer=new[part.buffer]) if isinstance(part, Load | Gather) else part

    stages = tuple(replace(s, body=rebuild(s.body, change)) for s in kernel.stages)
    stores = tuple(replace(s, buffer=new[s.buffer], value=rebuild(s.value, change)) for s in kernel.stores)
    buffers = {new[name]: replace(buffer, name=new[name]) for name, buffer in plan.buffers.items()}
    return replace(plan, buffers=buffers, kernels=(replace(kernel, stages=stages, stores=stores),))


@pytest.mark.parametrize(("name", "schedule"), EXAMPLES, ids=lambda value: type(value).__name__)
def test_tensors_may_be_called_as_what_a_kernel_declares(plan: Plan, name: str, schedule: Schedule) -> None:
    whole, kernel = place_of(plan, name)
    kernel = replace(kernel, schedule=schedule, constant_sizes=True)

    def functions(source: str) -> list[Function]:
        return [f for f in CudaSource(source).functions if f.kernel and f.name == kernel.name]

    def locals_of(function: Function) -> set[str]:
        return set(declared(function.body))

    (before,) = functions(emit(whole.with_kernels((kernel,))))
    taken = sorted(locals_of(before) - {*whole.buffers, *whole.sizes[0]})
    if name == "packed":  # whose scales are found by name
        return
    clashing = renamed(whole, kernel, [*taken, *(f"t{i}" for i in range(20))])
    (after,) = functions(emit(clashing))
    parameters = {parameter.name for parameter in after.parameters}
    assert taken and not parameters & locals_of(after)
    assert len(parameters) == len(before.parameters)


@pytest.mark.parametrize("name", sorted(load_techniques()))
def test_a_technique_changes_the_source_or_says_why_not(plan: Plan, name: str) -> None:
    technique = load_techniques()[name]
    packed, _ = place_of(plan, "packed")
    for start in (plan, packed, replace(plan, kernels=plan.kernels[:1])):
        own, sources = emit(start), [emit(further) for further in technique(start)]
        assert own not in sources and len(set(sources)) == len(sources)
        refusals = technique.why_not(start)
        assert all(" " in why and why[0].islower() and why[-1] != "." for why in refusals.values())
        if not sources:
            assert set(refusals) == {kernel.name for kernel in start.kernels}


def test_facts_are_those_of_the_gpu(plan: Plan) -> None:
    """On a GPU with fewer SMs, fewer parts of a reduction fill it."""
    few = gpu_named("h200").model_copy(update={"multiprocessors": 8})
    large, small = (next(load_techniques(gpu)["two_level_reduction"](plan)) for gpu in (None, few))
    assert large.kernels != small.kernels


def test_the_table_in_the_documentation_is_current() -> None:
    """`python -m kernelblaster.policies.expert.technique_table` prints it."""
    assert technique_table() in (DOCS / "expert.md").read_text()


def test_every_core_operator_has_its_line_in_the_documentation() -> None:
    """`python -m kernelblaster.policies.expert.operator_table` prints them; it knows of each why not."""
    assert operator_table() in (DOCS / "operators.md").read_text()


@cache
def imports() -> dict[str, set[str]]:
    """For every module of the expert what it imports: modules of the expert by name, others by their
    package."""
    found: dict[str, set[str]] = {}
    names = {".".join(p.relative_to(ROOT).with_suffix("").parts): p for p in ROOT.rglob("*.py")}
    names = {name.removesuffix(".__init__").removesuffix("__init__"): path for name, path in names.items()}
    own = f"{expert.__name__}."
    for name, path in names.items():
        here = found.setdefault(name, set())
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module:
                within = f"{node.module}.".startswith(own)
                stem = node.module.removeprefix(expert.__name__).removeprefix(".") if within else ""
                inner = {f"{stem}.{alias.name}".removeprefix(".") for alias in node.names}
                whole = {stem} if stem or not inner & names.keys() else set()
                here |= (inner & names.keys() or whole) if within else {node.module.split(".")[0]}
            elif isinstance(node, ast.Import):
                here |= {alias.name.split(".")[0] for alias in node.names}
    return found


def reached(start: str) -> set[str]:
    found, waiting = set(), [start]
    while waiting:
        for name in imports().get(waiting.pop(), set()) - found:
            found.add(name)
            waiting.append(name)
    return found


def test_imports_have_no_cycles() -> None:
    TopologicalSorter({name: found & imports().keys() for name, found in imports().items()}).prepare()


def test_techniques_know_no_emitter_and_the_plan_no_torch() -> None:
    techniques = {name for name in imports() if name.startswith("techniques")}
    assert len(techniques) > 20
    for name in techniques:
        assert not any(found.split(".")[0] in ("emission", "emit") for found in reached(name)), name
    assert "torch" in reached("capture")
    for name in ("plan", "kernel", "schedules.rows", "emit", "lower", *techniques):
        assert "torch" not in reached(name), name
