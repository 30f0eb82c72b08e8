"""What the size check makes of a call at the modelled size, without running one."""

import pytest

from kernelblaster.judge.large_call import CallCoverage
from kernelblaster.judge.size_check import MORE_WORK, _timed_otherwise
from kernelblaster.judge.size_runs import uncovered
from kernelblaster.records import KernelProfile, Metric, Profile


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
