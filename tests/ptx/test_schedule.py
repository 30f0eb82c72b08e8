"""Blocks that wait for each other: they take turns, no more of them at once than fit on the GPU, and where
all of them wait, that is said."""

import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from kernelblaster.ptx.machine import Attributes, Draws, InvalidLaunch, Machine, Module, Report

SOURCE = Path(__file__).parent / "scheduling.cu"
BLOCKS = 40


@pytest.fixture(scope="module")
def text(compiler: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    target = tmp_path_factory.mktemp("scheduling") / "k.ptx"
    command = [compiler, "-O3", "-lineinfo", "-arch=compute_80", "-ptx", str(SOURCE), "-o", str(target)]
    subprocess.run(command, check=True)
    return target.read_text()


@pytest.fixture
def machine() -> Iterator[Machine]:
    with Machine() as opened:
        yield opened


@pytest.fixture
def module(machine: Machine, text: str) -> Module:
    return machine.load(text)


def pointer(machine: Machine, tensor: torch.Tensor, *, read_only: bool = False) -> bytes:
    machine.allow(tensor.data_ptr(), tensor.nbytes, "memory", read_only=read_only)
    return struct.pack("Q", tensor.data_ptr())


def grid_barrier(machine: Machine, module: Module, attributes: Attributes) -> tuple[Report, torch.Tensor]:
    out, partial, arrived = torch.zeros(BLOCKS), torch.zeros(BLOCKS), torch.zeros(1, dtype=torch.int32)
    arguments = [pointer(machine, tensor) for tensor in (out, partial, arrived)]
    return module.launch("grid_barrier", (BLOCKS, 1, 1), (32, 1, 1), arguments, attributes=attributes), out


def test_a_barrier_of_the_grid_works_where_all_blocks_run_at_once(machine: Machine, module: Module) -> None:
    report, out = grid_barrier(machine, module, Attributes(resident=BLOCKS))
    assert not report.findings
    assert torch.equal(out, (torch.arange(BLOCKS) + 1.0) % BLOCKS)


def test_and_is_a_deadlock_where_they_do_not(machine: Machine, module: Module) -> None:
    report, _ = grid_barrier(machine, module, Attributes(resident=BLOCKS - 1))
    assert report.stopped and [f.kind for f in report.findings] == ["deadlock"]
    assert f"the {BLOCKS - 1} blocks" in report.findings[0].detail and report.findings[0].line > 0


def test_a_cooperative_launch_that_does_not_fit_is_invalid(machine: Machine, module: Module) -> None:
    with pytest.raises(InvalidLaunch, match="39 at once"):
        grid_barrier(machine, module, Attributes(resident=BLOCKS - 1, cooperative=True))


def chain(machine: Machine, module: Module, seed: int, *, tickets: bool, patience: int) -> torch.Tensor:
    out, sums = torch.zeros(BLOCKS), torch.zeros(BLOCKS)
    ready, counter = torch.zeros(BLOCKS, dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
    machine.draw(Draws(seed=seed))
    pointers = [pointer(machine, tensor) for tensor in (out, sums, ready, counter)]
    pointers[3] = pointers[3] if tickets else struct.pack("Q", 0)
    arguments = [*pointers, struct.pack("i", patience)]
    report = module.launch("chain", (BLOCKS, 1, 1), (64, 1, 1), arguments, attributes=Attributes(resident=8))
    assert not report.findings, report.findings
    return out


@pytest.mark.parametrize("tickets", [False, True])
def test_a_chain_of_blocks_ends_with_any_draw(machine: Machine, module: Module, tickets: bool) -> None:
    for seed in range(6):
        assert torch.equal(
            chain(machine, module, seed, tickets=tickets, patience=0), torch.arange(BLOCKS) + 1.0
        )


def test_who_does_not_wait_is_wrong_with_some_draw(machine: Machine, module: Module) -> None:
    right = torch.arange(BLOCKS) + 1.0
    outs = [chain(machine, module, seed, tickets=False, patience=2) for seed in range(6)]
    assert any(not torch.equal(out, right) for out in outs)


def test_a_warp_that_polls_keeps_no_other_from_its_barrier(machine: Machine, module: Module) -> None:
    out = torch.zeros(128)
    report = module.launch("specialized", (1, 1, 1), (128, 1, 1), [pointer(machine, out)])
    assert not report.stopped
    assert out.tolist() == [1.0] * 32 + [2.0] * 96


def test_reading_many_volatile_values_is_no_deadlock(machine: Machine, module: Module) -> None:
    out, x = torch.zeros(1), torch.arange(5000.0)
    arguments = [pointer(machine, out), pointer(machine, x), struct.pack("i", 5000)]
    report = module.launch("reads_on", (1, 1, 1), (1, 1, 1), arguments)
    assert not report.findings and out[0] == x.sum()


def test_inputs_may_only_be_read(machine: Machine, module: Module) -> None:
    out, x = torch.zeros(64), torch.arange(64.0)
    arguments = [pointer(machine, out), pointer(machine, x, read_only=True)]
    assert not module.launch("copies", (2, 1, 1), (32, 1, 1), arguments).findings
    swapped = module.launch("copies", (2, 1, 1), (32, 1, 1), arguments[::-1])
    assert swapped.stopped and swapped.findings[0].kind == "input-modified"


def test_some_blocks_are_drawn_from_all_over_the_grid(machine: Machine, module: Module) -> None:
    written = []
    for seed in range(3):
        out, x = torch.zeros(64 * 32), torch.ones(64 * 32)
        machine.draw(Draws(seed=seed, most_blocks=8, unordered=True))
        report = module.launch("copies", (64, 1, 1), (32, 1, 1), [pointer(machine, out), pointer(machine, x)])
        blocks = out.view(64, 32)[:, 0].nonzero().flatten().tolist()
        assert report.counts["blocks"] == 8 and [block // 8 for block in blocks] == list(range(8))
        written.append(blocks)
    assert written[0] != written[1] or written[1] != written[2]


def test_a_launch_ends_after_the_work_that_it_may_do(machine: Machine, module: Module) -> None:
    out, x = torch.zeros(64 * 32), torch.ones(64 * 32)
    machine.draw(Draws(most_work=200))
    report = module.launch("copies", (64, 1, 1), (32, 1, 1), [pointer(machine, out), pointer(machine, x)])
    assert report.exhausted and report.stopped and not report.findings and 0 < out.sum() < 64 * 32


@pytest.mark.parametrize(("count", "frees", "held"), [(8, True, 0), (8, False, 32 * 32), (1 << 20, True, 0)])
def test_kernels_have_a_heap(machine: Machine, module: Module, count: int, frees: bool, held: int) -> None:
    out, kept = torch.zeros(32), torch.zeros(32, dtype=torch.int64)
    arguments = [
        pointer(machine, kept),
        pointer(machine, out),
        struct.pack("i", count),
        struct.pack("?", frees),
    ]
    report = module.launch("heap", (1, 1, 1), (32, 1, 1), arguments)
    assert not report.findings and machine.clear_heap() == held
    got = int(out.sum())
    assert got == 32 if count == 8 else 0 < got < 32  # 8 MiB hold two blocks of 4
