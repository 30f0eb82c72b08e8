"""Every kind of finding: a kernel with the fault gives it, at the right line; its right twin gives none."""

import struct
import subprocess
from pathlib import Path

import pytest
import torch

from kernelblaster.ptx.machine import Machine, Module, Report

SOURCE = Path(__file__).with_name("planted_faults.cu")
BUDGET = 200_000
SIZES = """extern "C" __global__ void narrow(float* out) {
  __shared__ float tile[256];
  tile[threadIdx.x] = threadIdx.x;
  __syncthreads();
  out[threadIdx.x] = tile[255 - threadIdx.x];
}
extern "C" __global__ void roomy(float* out) {
  __shared__ float tile[4096];
  for (int i = threadIdx.x; i < 4096; i += blockDim.x) tile[i] = i;
  __syncthreads();
  out[threadIdx.x] = tile[4095 - threadIdx.x];
}
"""
# kind, blocks, threads, and a word of the detail: an allocation, a variable or the other side.
FAULTS = {
    "bounds": ("out-of-bounds", 1, 32, "'out'"),
    "aligned": ("misaligned", 1, 16, "'x'"),
    "shared_race": ("race", 1, 64, "tile"),
    "overwrite": ("race", 1, 64, "tile"),
    "halves": ("race", 1, 64, "tile"),
    "collision": ("race", 1, 64, "best"),
    "named_barrier": ("race", 1, 96, "tile"),
    "hand_over": ("race", 1, 64, "tile"),
    "async_copy": ("race", 1, 64, "tile"),
    "block_race": ("race", 8, 1, "'out'"),
    "lost_update": ("race", 8, 1, "'out'"),
    "warp_race": ("race", 1, 64, "'out'"),
    "last_block": ("memory-order", 8, 1, "'partial'"),
    "lock": ("race", 1, 64, "'out'"),
    "fresh_shared": ("uninitialized", 1, 64, "shared"),
    "fresh_local": ("uninitialized", 1, 32, "local"),
    "fresh_scratch": ("uninitialized", 1, 32, "'x'"),
    "split_barrier": ("divergent-barrier", 1, 32, "one warp"),
    "deadlock": ("deadlock", 1, 64, "barrier"),
    "runaway": ("runaway", 1, 32, "endless"),
    "spin": ("deadlock", 8, 1, "no other will write"),
    "trap": ("trap", 1, 32, "trap"),
    "assert": ("assert", 1, 32, "x[threadIdx.x] < 5"),
    "recursion": ("stack-overflow", 1, 32, "deeper"),
}


@pytest.fixture(scope="module")
def text(compiler: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    target = tmp_path_factory.mktemp("planted") / "k.ptx"
    command = [compiler, "-O3", "-lineinfo", "-arch=compute_80", "-ptx", str(SOURCE), "-o", str(target)]
    subprocess.run(command, check=True)
    return target.read_text()


@pytest.fixture
def machine():  # type: ignore[no-untyped-def]
    with Machine() as opened:
        yield opened


@pytest.fixture
def module(machine: Machine, text: str) -> Module:
    return machine.load(text)


def launch(machine: Machine, module: Module, name: str, twin: str, tracked: bool = False) -> Report:
    _, blocks, threads, _ = FAULTS[name]
    out, x = torch.zeros(128), torch.arange(128).float()
    for tensor, label in ((out, "out"), (x, "x")):
        machine.allow(tensor.data_ptr(), tensor.nbytes, label, tracked=tracked and label == "x")
    arguments = [struct.pack("Q", out.data_ptr()), struct.pack("Q", x.data_ptr()), struct.pack("i", 128)]
    return module.launch(f"{name}_{twin}", (blocks, 1, 1), (threads, 1, 1), arguments, budget=BUDGET)


def planted_line(name: str) -> int:
    lines = SOURCE.read_text().splitlines()
    return next(i for i, line in enumerate(lines, 1) if line.endswith(f"// FAULT {name}"))


@pytest.mark.parametrize("name", FAULTS)
def test_the_fault_is_found_at_its_line(machine: Machine, module: Module, name: str) -> None:
    kind, _, _, word = FAULTS[name]
    report = launch(machine, module, name, "bad", tracked=name == "fresh_scratch")
    assert report.findings, name
    finding = report.findings[0]
    line = planted_line(name)  # of a race either side may be the one that was found later
    assert finding.kind == kind and (finding.line == line or f"at line {line} " in finding.detail), finding
    assert finding.kernel == f"{name}_bad" and word in finding.detail


@pytest.mark.parametrize("name", FAULTS)
def test_its_right_twin_is_clean(machine: Machine, module: Module, name: str) -> None:
    report = launch(machine, module, name, "good", tracked=name == "fresh_scratch")
    assert not report.findings and not report.stopped


def test_what_one_kernel_did_does_not_count_against_the_next(
    machine: Machine, compiler: str, tmp_path: Path
) -> None:
    """What the machine records of one shared memory lies where another one's was. Read as something else,
    an early source line looks like the number of a block, once so many blocks were run."""
    (tmp_path / "k.cu").write_text(SIZES)
    command = [compiler, "-O3", "-lineinfo", "-arch=compute_80", "-ptx", "k.cu", "-o", "k.ptx"]
    subprocess.run(command, cwd=tmp_path, check=True)
    module = machine.load((tmp_path / "k.ptx").read_text())
    out = torch.zeros(256)
    machine.allow(out.data_ptr(), out.nbytes, "out")
    for _ in range(2500):
        for name in ("roomy", "narrow"):
            report = module.launch(name, (1, 1, 1), (256, 1, 1), [struct.pack("Q", out.data_ptr())])
            assert not report.findings, (name, report.findings)


def test_use_after_free(machine: Machine, module: Module) -> None:
    out, x = torch.zeros(128), torch.zeros(128)
    for tensor, name in ((out, "out"), (x, "x")):
        machine.allow(tensor.data_ptr(), tensor.nbytes, name)
    machine.forbid(x.data_ptr())
    arguments = [struct.pack("Q", out.data_ptr()), struct.pack("Q", x.data_ptr()), struct.pack("i", 128)]
    finding = module.launch("bounds_good", (1, 1, 1), (32, 1, 1), arguments).findings[0]
    assert finding.kind == "use-after-free" and "'x'" in finding.detail


def test_a_race_names_both_sides(machine: Machine, module: Module) -> None:
    finding = launch(machine, module, "shared_race", "bad").findings[0]
    lines = {planted_line("shared_race"), planted_line("shared_race") - 1}
    assert finding.line in lines and f"at line {sum(lines) - finding.line} by thread (" in finding.detail
    assert "of the same block" in finding.detail
    finding = launch(machine, module, "block_race", "bad").findings[0]
    assert "of block (" in finding.detail or "of another block" in finding.detail


@pytest.mark.parametrize("name", ["shared_race", "block_race", "last_block", "warp_race"])
def test_races_are_found_every_time(machine: Machine, module: Module, name: str) -> None:
    for _ in range(20):
        assert launch(machine, module, name, "bad").findings[0].kind == FAULTS[name][0]
        assert not launch(machine, module, name, "good").findings
