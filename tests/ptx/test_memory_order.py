"""Order that threads rely on without having it: between lanes, between blocks, between launches."""

import struct
import subprocess
from pathlib import Path

import pytest
import torch

from kernelblaster.ptx.machine import Attributes, Machine, MachineFinding, Module, Report

SOURCE = Path(__file__).with_name("memory_order.cu")
BUDGET = 2_000_000
# name: the finding's kind, blocks and threads to launch, a word its detail has
FAULTS = {
    "exchange": ("race", 1, 64, "same warp"),
    "half_barrier": ("race", 1, 128, "tile"),
    "lockstep": ("race", 1, 64, "same warp"),
    "overtaken": ("race", 1, 32, "same warp"),
    "through_memory": ("race", 1, 32, "same warp"),
    "tiles": ("race", 1, 32, "same warp"),
    "branches": ("race", 1, 32, "same warp"),
    "scope": ("memory-order", 8, 1, "partial"),
    "alone": ("memory-order", 2, 64, "partial"),
    "unrelated": ("memory-order", 8, 1, "partial"),
    "relaxed": ("memory-order", 8, 1, "partial"),
    "unfenced": ("memory-order", 8, 1, "partial"),
    "constant": ("read-only", 1, 32, "partial"),
    "narrow": ("race", 8, 1, "scope"),
    "accumulated": ("memory-order", 8, 1, "total"),
    "grid_barrier": ("memory-order", 12, 64, "partial"),
}
HONEST = {
    "warp": (1, 64),
    "packed_scan": (24, 32),
    "flagged_scan": (24, 32),
    "persistent": (6, 64),
    "cooperative": (7, 64),
    "chained": (9, 1),
}


@pytest.fixture(scope="module")
def text(compiler: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    target = tmp_path_factory.mktemp("order") / "k.ptx"
    command = [compiler, "-O3", "-std=c++17", "-lineinfo", "-arch=compute_90", "-ptx", str(SOURCE)]
    subprocess.run([*command, "-o", str(target)], check=True)
    return target.read_text()


@pytest.fixture
def machine():  # type: ignore[no-untyped-def]
    with Machine() as opened:
        yield opened


def launch(machine: Machine, module: Module, kernel: str, blocks: int, threads: int) -> Report:
    out, x = torch.zeros(128), torch.arange(128).float()
    arguments = []
    for tensor, label in ((out, "out"), (x, "x")):
        machine.allow(tensor.data_ptr(), tensor.nbytes, label)
        arguments.append(struct.pack("Q", tensor.data_ptr()))
    arguments.append(struct.pack("i", 128))
    attributes = Attributes(cooperative=kernel.startswith("cooperative"))
    return module.launch(
        kernel, (blocks, 1, 1), (threads, 1, 1), arguments, budget=BUDGET, attributes=attributes
    )


def planted_line(name: str) -> int:
    lines = SOURCE.read_text().splitlines()
    return next(i for i, line in enumerate(lines, 1) if line.endswith(f"// FAULT {name}"))


def tells_of(finding: MachineFinding, line: int) -> bool:
    """Of two accesses either may be the one that was found later."""
    return finding.line == line or f"at line {line} " in finding.detail


@pytest.mark.parametrize("name", FAULTS)
def test_the_fault_is_found_at_its_line(machine: Machine, text: str, name: str) -> None:
    kind, blocks, threads, word = FAULTS[name]
    for _ in range(5):  # whatever order the blocks happen to run in
        report = launch(machine, machine.load(text), f"{name}_bad", blocks, threads)
        line = planted_line(name)
        assert any(f.kind == kind and tells_of(f, line) and word in f.detail for f in report.findings), report


@pytest.mark.parametrize("name", FAULTS)
def test_its_right_twin_is_clean(machine: Machine, text: str, name: str) -> None:
    _, blocks, threads, _ = FAULTS[name]
    for _ in range(5):
        report = launch(machine, machine.load(text), f"{name}_good", blocks, threads)
        assert not report.findings and not report.stopped


@pytest.mark.parametrize("name", HONEST)
def test_honest_ways_to_order_threads(machine: Machine, text: str, name: str) -> None:
    for _ in range(5):
        report = launch(machine, machine.load(text), f"{name}_honest", *HONEST[name])
        assert not report.findings and not report.stopped


@pytest.mark.parametrize("name", ["dependent", "overwriting"])
def test_a_dependent_launch_waits_for_what_it_reads(machine: Machine, text: str, name: str) -> None:
    module = machine.load(text)
    out, x = torch.zeros(64), torch.zeros(64)
    arguments = []
    for tensor, label in ((out, "out"), (x, "x")):
        machine.allow(tensor.data_ptr(), tensor.nbytes, label)
        arguments.append(struct.pack("Q", tensor.data_ptr()))
    arguments.append(struct.pack("i", 64))

    def run(kernel: str, dependent: bool) -> tuple[MachineFinding, ...]:
        attributes = Attributes(dependent=dependent)
        return module.launch(kernel, (1, 1, 1), (64, 1, 1), arguments, attributes=attributes).findings

    run("first", False)
    found = run(f"{name}_bad", True)
    assert found and found[0].kind == "dependent-launch" and found[0].line == planted_line(name)
    assert "first" in found[0].detail
    for kernel, dependent in ((f"{name}_good", True), (f"{name}_bad", False)):
        run("first", False)
        assert not run(kernel, dependent)
    run("first", False)
    run("overwriting_good", True)  # has waited, and may still run itself
    assert run("dependent_bad", True)[0].kind == "dependent-launch"
