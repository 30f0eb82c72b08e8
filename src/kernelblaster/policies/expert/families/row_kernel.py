"""A kernel as rows: what moves along them, in how many passes, and what is kept between these."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from kernelblaster.policies.expert import emit as emitting
from kernelblaster.policies.expert import index as indices
from kernelblaster.policies.expert.expression import Gather, Load, Reduced, loads, walk
from kernelblaster.policies.expert.families import peeled
from kernelblaster.policies.expert.families.accumulators import Accumulator, accumulators
from kernelblaster.policies.expert.families.near import Near, NearRenderer, fits, near, near_renderer
from kernelblaster.policies.expert.flatten import flattened, straight
from kernelblaster.policies.expert.index import Index
from kernelblaster.policies.expert.plan import Kernel, Plan, Stage
from kernelblaster.records.signature import DTYPE_BYTES

RUNNING = "j"  # the number of a pack's first element within the row


@dataclass(frozen=True)
class Rows:
    """A kernel as rows, with what is needed to write it."""

    kernel: Kernel
    plan: Plan
    near: Near
    render: NearRenderer
    found: Sequence[Accumulator]

    @property
    def narrow(self) -> bool:
        return fits(self.plan, indices.product(axis.extent for axis in self.kernel.reduced))

    @property
    def number(self) -> str:
        """The type that counts packs."""
        return "int" if self.narrow else "int64_t"

    @property
    def start(self) -> Index | None:
        """Where a row starts, if its packs are peeled (peeled.py)."""
        return peeled.row_start(self.kernel, self.plan, self.near, self.render)

    def straight(self, address: Index) -> dict[str, Index]:
        """What the loops' variables become in an address that needs nothing but their running number."""
        *outer, inner = self.kernel.reduced
        if not outer or not straight(address, self.kernel.reduced):
            return {}
        return {axis.name: indices.ZERO for axis in outer} | {inner.name: indices.variable(RUNNING)}

    @property
    def cluster(self) -> int:
        """The number of thread blocks of the cluster that share a row; 1 without a cluster."""
        return self.kernel.schedule.cluster

    @property
    def row(self) -> tuple[str, str]:
        """The type and name of a row's number: a single axis is that itself."""
        if len(self.kernel.axes) == 1:
            return "int64_t", self.kernel.axes[0].name
        total = indices.product(axis.extent for axis in self.kernel.axes)
        return "unsigned" if fits(self.plan, total) else "int64_t", "row"

    @property
    def kept(self) -> dict[Load | Gather, str]:
        """Packs that stay in registers or shared memory: those that more than one pass needs."""
        if not (self.kernel.schedule.kept or self.kernel.schedule.held):
            return {}
        return {load: self.near.reads[load] for load in needed_again(self.kernel, self.near)}


def as_rows(kernel: Kernel) -> Kernel:
    """A pointwise kernel as rows without stages; any other as it is."""
    if kernel.stages:
        return kernel
    stores = tuple(replace(store, each=True) for store in kernel.stores)
    return replace(kernel, axes=kernel.axes[:-1], reduced=kernel.axes[-1:], stores=stores)


def rows_of(kernel: Kernel, plan: Plan) -> Rows:
    kernel = as_rows(flattened(kernel, plan))
    found = near(kernel, plan, kernel.reduced[-1], sides=True)
    render = near_renderer(emitting.renderer(plan), found)
    rows = Rows(kernel, plan, found, render, accumulators(kernel, plan))
    if kernel.schedule.stays and not may_stay(rows):
        rows = replace(rows, kernel=replace(kernel, schedule=replace(kernel.schedule, stays=False)))
    return rows


def may_stay(rows: Rows) -> bool:
    """Whether a cluster can go on to further rows: all begin alike, and a last pass goes over each."""
    return bool(rows.kernel.axes) and rows.start is None and any(store.each for store in rows.kernel.stores)


def passes(kernel: Kernel) -> list[list[Stage]]:
    """Stages in the order of their needs; those of one list do not need each other."""
    depth: dict[str, int] = {}
    for stage in kernel.stages:
        needed = [part.stage for part in walk(stage.body) if isinstance(part, Reduced)]
        depth[stage.name] = 1 + max((depth[name] for name in needed), default=-1)
    levels = sorted(set(depth.values()))
    return [[stage for stage in kernel.stages if depth[stage.name] == level] for level in levels]


def passes_with(kernel: Kernel, load: Load | Gather) -> int:
    """How many passes over the row need what a load reads."""
    bodies = [[stage.body for stage in group] for group in passes(kernel)]
    bodies.append([store.value for store in kernel.stores if store.each])
    return sum(any(load in loads(body) for body in group) for group in bodies)


def needed_again(kernel: Kernel, found: Near) -> list[Load | Gather]:
    """Loads that more than one pass over the row needs, and that are therefore kept in registers; in a
    cluster, only those that are read unconditionally."""
    known = [load for load in found.reads if kernel.schedule.cluster == 1 or load not in found.guards]
    return [load for load in known if passes_with(kernel, load) > 1]


def keeps_all(kernel: Kernel, plan: Plan) -> bool:
    """Whether the primary workload's rows fit in what threads keep."""
    return kept_elements(kernel) >= plan.elements(kernel.reduced)


def kept_elements(kernel: Kernel) -> int:
    """How many elements of a row the threads keep together."""
    chosen = kernel.schedule
    return (chosen.kept + chosen.held) * chosen.row_threads * chosen.cluster


def element_bytes(found: Iterable[Load | Gather], plan: Plan) -> int:
    """What one element of each takes."""
    return sum(DTYPE_BYTES[plan.buffers[load.buffer].dtype] for load in found)
