"""Which blocks the order check runs of a candidate's launches."""

from kernelblaster.devices.launch_list import RecordedLaunch
from kernelblaster.judge.order_sizes import MOST_WARPS, LaunchedSize
from kernelblaster.records import Workload

WORKLOAD = Workload(name="small", sizes={"rows": 4096})


def launch(name: str, *, cooperative: bool = False) -> RecordedLaunch:
    """A launch with more warps than one call may have."""
    grid = (MOST_WARPS, 1, 1)
    return RecordedLaunch(name, grid, (64, 1, 1), 0, cooperative, False, (0, 0, 0))


def test_some_blocks_of_a_large_launch_are_enough() -> None:
    assert LaunchedSize(WORKLOAD, (launch("relu"),), False).most_blocks == MOST_WARPS // 2


def test_a_later_launch_reads_what_all_blocks_of_an_earlier_one_wrote() -> None:
    assert LaunchedSize(WORKLOAD, (launch("mean"), launch("scale")), False).most_blocks == 0


def test_blocks_that_wait_for_each_other_all_run() -> None:
    assert LaunchedSize(WORKLOAD, (launch("sum", cooperative=True),), False).most_blocks == 0
    assert LaunchedSize(WORKLOAD, (launch("sum"),), True).most_blocks == 0
