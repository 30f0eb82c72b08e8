"""What the size check makes of a call at the modelled size, without running one."""

from pathlib import Path

import pytest
import torch

from kernelblaster.devices.emulated import EmulatedDevice
from kernelblaster.judge.baseline import ModuleBaseline
from kernelblaster.judge.large_call import CallCoverage
from kernelblaster.judge.layout import slot_bytes
from kernelblaster.judge.size_check import MORE_WORK, SizeCheck, _timed_otherwise
from kernelblaster.judge.size_runs import uncovered
from kernelblaster.records import KernelProfile, Metric, Profile
from kernelblaster.tasks.catalog import load_task

ORDERED = """
import torch
class Model(torch.nn.Module):
    def forward(self, x, order):
        return x[order] + x
def get_inputs():
    return [torch.randn(40, 30), torch.randint(0, 40, (40,))]
def get_init_inputs():
    return []
"""


def profile(instructions: float) -> Profile:
    metric = Metric(name="smsp__inst_executed.sum", unit="inst", value=instructions, tier="modelled")
    kernel = KernelProfile(name="kernel", grid=(1000, 1, 1), block=(128, 1, 1), metrics=(metric,))
    return Profile(device="PTX machine", tier="modelled", workload="primary", kernels=(kernel,))


@pytest.mark.parametrize(
    ("factor", "told"), [(0.9, False), (MORE_WORK - 0.1, False), (MORE_WORK + 0.1, True)]
)
def test_more_work_than_was_timed_is_told(factor: float, told: bool) -> None:
    seen = CallCoverage(share=0.1, covered=0.1, places=(), work=int(factor * 1e5))
    assert (_timed_otherwise(seen, profile(1e6)) is not None) == told
    assert _timed_otherwise(seen, None) is None


@pytest.mark.parametrize(("covered", "told"), [(0.1, False), (0.098, False), (0.091, True), (0.0, True)])
def test_blocks_must_write_their_share(covered: float, told: bool) -> None:
    seen = CallCoverage(share=0.1, covered=covered, places=(), work=1)
    assert (uncovered(seen) is not None) == told


def test_indices_beyond_a_part_of_the_rows_are_refused_and_no_error(tmp_path: Path) -> None:
    path = tmp_path / "ordered.py"
    path.write_text(ORDERED)
    task, device = load_task(str(path)), EmulatedDevice()
    try:
        baseline = ModuleBaseline(task, device)
        device.arena(slot_bytes(task.signature, [task.primary]))
        check, x = SizeCheck(device), torch.randn(40, 30)
        assert check._outputs(task, baseline, task.primary, [x, torch.arange(40)]) is not None
        assert check._outputs(task, baseline, task.primary, [x, torch.full((40,), 50)]) is None
    finally:
        device.close()
