"""Cache hints: data that is read or written only once is accessed by streaming loads and stores (`__ldcs`,
`__stcs`), so that the caches keep data that is used again."""

from dataclasses import replace
from typing import get_args

from kernelblaster.devices.specs import GpuSpec
from kernelblaster.policies.expert.kernel import Kernel
from kernelblaster.policies.expert.plan import Plan
from kernelblaster.policies.expert.rewriting import No
from kernelblaster.policies.expert.row_kernel import RowKernel, row_kernel
from kernelblaster.policies.expert.schedules.columns import Columns
from kernelblaster.policies.expert.schedules.pointwise import FlatVectors
from kernelblaster.policies.expert.schedules.rows import ClusterRows, Rows
from kernelblaster.policies.expert.schedules.scans import ScanColumns, ScanRows

Hinted = FlatVectors | Columns | Rows | ScanRows | ScanColumns
APPLIES_TO = get_args(Hinted)


def _streaming(kernel: Kernel, plan: Plan, gpu: GpuSpec) -> Kernel | No:
    assert isinstance(kernel.schedule, Hinted)
    if kernel.schedule.streaming:
        return No("it has cache hints already")
    if isinstance(kernel.schedule, Rows) and not _touches_once(row_kernel(kernel, plan), kernel.schedule):
        return No("nothing that it reads or writes in vectors is known to be touched once")
    return replace(kernel, schedule=replace(kernel.schedule, streaming=True))


def _touches_once(rows: RowKernel, schedule: Rows) -> bool:
    """Whether a row kernel under `schedule` reads or writes vectors that it does not use again, so that cache
    hints change something. Vectors that a cluster of blocks copies to shared memory do not count, because
    these copies bypass the L1 cache anyway, unless a part of them is held in registers."""
    in_cluster = rows.resident(schedule) if isinstance(schedule, ClusterRows) else {}
    held = isinstance(schedule, ClusterRows) and schedule.register_elements and in_cluster
    reads = any(rows.is_read_once(load, schedule) for load in rows.access.reads if load not in in_cluster)
    return bool(held) or reads or any(store.over for store in rows.access.writes)


REWRITES = (_streaming,)
