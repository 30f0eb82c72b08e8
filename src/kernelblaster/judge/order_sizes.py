"""Chooses the sizes at which the order check, the emulator's search for races and stale reads, runs a
candidate. Runs at these sizes should be cheap, and the host code should launch the same kernels there as at
the timed sizes, with more than one block each."""

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import prod

import torch

from kernelblaster.devices.device import Arena, Argument, Slot
from kernelblaster.devices.emulated import EmulatedRunner
from kernelblaster.devices.launch_list import RecordedLaunch
from kernelblaster.devices.occupancy import WARP
from kernelblaster.judge.layout import lay_out, slot_bytes
from kernelblaster.records import Task, Workload

MOST_WARPS = 1200  # of one call; of a single launch with more, some blocks are run
MANY_WARPS = 400 * MOST_WARPS  # above, setting up the call takes too long
MOST_SPEAKING_WARPS = 4 * MOST_WARPS  # where blocks communicate, all of them must run
TRIED = 12  # sizes whose launches are recorded
CHOSEN = 5
LEAST_EXTENT = 3  # below, errors may not show in results, as in the softmax of one number
SPEAKS = re.compile(r"\b(atom|ld)\.[\w:.]*(volatile|relaxed|acquire|acq_rel|add|inc|exch|cas|or|max|min)\b")
Reached = set[tuple[str, bool, bool]]


@dataclass(frozen=True)
class LaunchedSize:
    """A workload (a choice of all sizes) and the kernel launches that a candidate makes at it, as recorded
    from its host code. `speaking`: some kernel has volatile or atomic accesses by which blocks may
    communicate, so that the emulator must run all blocks."""

    workload: Workload
    launches: tuple[RecordedLaunch, ...]
    speaking: bool

    @property
    def warps(self) -> int:
        """The number of warps of all launches at this size together: a measure of how much work they are for
        the emulator."""
        return sum(_warps(launch) for launch in self.launches)

    @property
    def most_blocks(self) -> int:
        """How many blocks of the launch at this size the emulator should run; 0 means all. All are run if
        they have at most 1200 warps (MOST_WARPS) together, if there are several launches (a later one reads
        what every block of an earlier one wrote), or if blocks communicate. Otherwise it is as many blocks as
        have 1200 warps together, at least 2."""
        if self.speaking or not self.alone or self.warps <= MOST_WARPS:
            return 0
        return max(2, MOST_WARPS // -(-prod(self.launches[0].block) // WARP))

    @property
    def alone(self) -> bool:
        """True if there is a single launch at this size and it is not cooperative (has no barrier over the
        whole grid), so that some of its blocks can be run without the others."""
        return len(self.launches) == 1 and not self.launches[0].cooperative

    @property
    def possible(self) -> bool:
        """True if the emulator can run this size without taking too long. The limit is on the number of warps
        of all launches together: 1200 (MOST_WARPS) in general. For a single launch that is not cooperative it
        is 4800 if its blocks communicate, and 480,000 if they do not, since only some blocks are then run.
        False if nothing is launched."""
        most = MOST_WARPS if not self.alone else MOST_SPEAKING_WARPS if self.speaking else MANY_WARPS
        return bool(self.launches) and self.warps <= most

    @property
    def reached(self) -> Reached:
        """What running the candidate at this size covers, as triples (kernel name, several, large).
        `several`: the kernel is launched with more than one cluster of blocks. `large`: every size is at
        least three (LEAST_EXTENT), below which an error may not show. A run with several clusters covers also
        what one with a single cluster would, and the same holds for large sizes. So a kernel `k` with many
        blocks at large sizes gives four triples: ("k", False, False), ("k", False, True), ("k", True, False)
        and ("k", True, True)."""
        ample = min(self.workload.sizes.values()) >= LEAST_EXTENT
        return {
            (one.kernel, several, large)
            for one in self.launches
            for several in (False, _several(one))
            for large in (False, ample)
        }


def tried(
    task: Task, small: Workload, stretched: Sequence[Workload], others: Sequence[Workload]
) -> list[Workload]:
    """Returns the workloads of `task` at which the candidate's host code is recorded, to see which kernels it
    launches there: at most twelve (TRIED), all different. `small` comes first. In each of `stretched`, one
    size is very long; of several with the same long size, one is drawn at random. `others` are added until
    there are twelve."""
    names = [size.name for size in task.signature.sizes]
    longest = {max(names, key=lambda n: w.sizes[n]): w for w in random.sample(stretched, len(stretched))}
    unique = {tuple(w.sizes.values()): w for w in (small, *longest.values(), *others)}
    return list(unique.values())[:TRIED]


def choose(
    runner: EmulatedRunner,
    primary: tuple[Argument, ...],
    calls: Sequence[tuple[Workload, tuple[Argument, ...]]],
    *,
    speaking: bool,
) -> tuple[list[LaunchedSize], list[str]]:
    """Chooses the sizes at which the order check runs the candidate, at most five (CHOSEN). `calls` are the
    workloads to choose from, each with the arguments of a call; `primary` are the arguments of a call at the
    timed sizes. Returns (the chosen sizes, the names of missing kernels). The first of `calls` is always
    chosen; the others are chosen so that all together launch the same kernels as the primary call. A kernel
    is missing in two cases: (1) the primary call launches it, and no chosen size does; (2) the primary call
    launches it with several clusters of blocks, and no chosen size with more than one. `runner`, which has
    the candidate loaded, records the launches of all these calls; none is run. `speaking` (whether blocks may
    communicate) is copied into each of the chosen sizes."""
    runner.record([primary, *(call for _, call in calls)])
    launched = runner.recorded(primary).launches
    wanted: Reached = {
        (one.kernel, s, large) for one in launched for s in (False, _several(one)) for large in (False, True)
    }
    sizes = [LaunchedSize(workload, runner.recorded(call).launches, speaking) for workload, call in calls]
    chosen, rest = [sizes[0]], [size for size in sizes[1:] if size.possible]
    while len(chosen) < CHOSEN and rest:
        missing = wanted.difference(*(size.reached for size in chosen))
        best = max(rest, key=lambda size: len(missing & size.reached))  # of equals, the first
        chosen.append(best)
        rest.remove(best)
    seen = {(kernel, several) for size in chosen for kernel, several, _ in size.reached}
    return chosen, sorted({kernel for kernel, several, _ in wanted if (kernel, several) not in seen})


def primary_call(task: Task, scalars: Sequence[object]) -> tuple[Argument, ...]:
    """Returns the arguments of a call of the task's launch function at the primary workload (the sizes that
    are timed), with `scalars` as its scalar arguments. There is no memory behind its tensors: the launches of
    the call can be recorded, but not run."""
    starts = accumulate(sizes := slot_bytes(task.signature, [task.primary]), initial=0)
    slots = tuple(Slot(start, size) for start, size in zip(starts, sizes, strict=False))
    arena = Arena(torch.empty(0, dtype=torch.uint8), slots)
    return lay_out(arena, task.signature, task.primary, random.Random()).arguments(task.signature, scalars)


def _warps(launch: RecordedLaunch) -> int:
    return prod(launch.grid) * -(-prod(launch.block) // WARP)


def _several(launch: RecordedLaunch) -> bool:
    """Whether a launch has more than one cluster (more than one block if it has no clusters)."""
    return prod(launch.grid) > max(1, prod(launch.cluster))
