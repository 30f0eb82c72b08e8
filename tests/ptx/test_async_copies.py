"""Asynchronous copies: their data is there for those who waited, and for nobody else."""

import struct
import subprocess
from pathlib import Path

import pytest
import torch

from kernelblaster.ptx.machine import Machine, Report

SOURCE = Path(__file__).with_name("async_copies.cu")
FAULTS = {
    "unawaited": "not-awaited",
    "by_barrier": "not-awaited",
    "one_too_few": "not-awaited",
    "bulk": "not-awaited",
    "reused": "not-awaited",
    "proxy": "memory-order",
    "refilled": "not-awaited",
    "arrivals": "race",
}


@pytest.fixture(scope="module")
def text(compiler: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    target = tmp_path_factory.mktemp("async") / "k.ptx"
    command = [compiler, "-O3", "-std=c++17", "-lineinfo", "-arch=compute_90", "-ptx", str(SOURCE)]
    subprocess.run([*command, "-diag-suppress", "20054", "-o", str(target)], check=True)
    return target.read_text()


def launch(text: str, kernel: str) -> tuple[Report, torch.Tensor, torch.Tensor]:
    x, out = torch.arange(1, 129).float(), torch.zeros(64)
    with Machine() as machine:
        arguments = []
        for tensor, name in ((out, "out"), (x, "x")):
            machine.allow(tensor.data_ptr(), tensor.nbytes, name)
            arguments.append(struct.pack("Q", tensor.data_ptr()))
        report = machine.load(text).launch(kernel, (1, 1, 1), (64, 1, 1), arguments, budget=200_000)
    return report, out, x[:64]


@pytest.mark.parametrize("name", FAULTS)
def test_a_copy_that_nobody_awaits_is_found_at_its_line(text: str, name: str) -> None:
    lines = SOURCE.read_text().splitlines()
    line = next(i for i, words in enumerate(lines, 1) if words.endswith(f"// FAULT {name}"))
    report, _, _ = launch(text, f"{name}_bad")
    assert report.findings
    finding = report.findings[0]
    assert finding.kind == FAULTS[name] and (finding.line == line or f"line {line} " in finding.detail), (
        finding
    )


@pytest.mark.parametrize(
    "kernel", [f"{name}_good" for name in FAULTS] + ["pipeline_honest", "barrier_honest"]
)
def test_copies_that_are_awaited(text: str, kernel: str) -> None:
    report, out, x = launch(text, kernel)
    assert not report.findings and not report.stopped
    assert torch.equal(out, x)


def test_data_is_not_there_before_the_wait(text: str) -> None:
    _, out, x = launch(text, "unawaited_bad")
    assert not torch.equal(out, x)
