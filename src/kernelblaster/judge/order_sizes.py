"""At which sizes the PTX machine looks at a candidate: those at which the host code launches what it
launches at the primary ones, more than one block of it, for little work."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import prod

import torch

from kernelblaster.devices.device import Arena, Argument, Slot
from kernelblaster.devices.emulated import EmulatedRunner
from kernelblaster.devices.launch_list import Launch
from kernelblaster.devices.occupancy import WARP
from kernelblaster.judge.layout import lay_out, slot_bytes
from kernelblaster.records import Task, Workload

MOST_WARPS = 3000  # of one call; of a single launch with more, some blocks are run
MANY_WARPS = 64  # times that: setting up so large a call takes too long
TRIED = 8  # sizes whose launches are looked at
CHOSEN = 4


@dataclass(frozen=True)
class Size:
    """One of the sizes that were tried. `most_blocks`: of its only launch; 0: all."""

    workload: Workload
    launches: tuple[Launch, ...]

    @property
    def warps(self) -> int:
        return sum(_warps(launch) for launch in self.launches)

    @property
    def most_blocks(self) -> int:
        if self.warps <= MOST_WARPS:
            return 0
        return max(2, MOST_WARPS // -(-prod(self.launches[0].block) // WARP))

    @property
    def possible(self) -> bool:
        few = self.warps <= MOST_WARPS
        return bool(self.launches) and (
            few or (len(self.launches) == 1 and self.warps <= MANY_WARPS * MOST_WARPS)
        )

    @property
    def reached(self) -> set[tuple[str, bool]]:
        return _reached(self.launches)


def tried(
    task: Task, small: Workload, stretched: Sequence[Workload], others: Sequence[Workload]
) -> list[Workload]:
    """The small workload, one stretched in each size, and some others, drawn."""
    names = [size.name for size in task.signature.sizes]
    longest = {max(names, key=lambda n: w.sizes[n]): w for w in random.sample(stretched, len(stretched))}
    rest = [w for w in (*stretched, *others) if w not in longest.values()]
    found = [small, *longest.values()]
    return found + random.sample(rest, max(0, min(len(rest), TRIED - len(found))))


def choose(
    runner: EmulatedRunner,
    primary: tuple[Argument, ...],
    calls: Sequence[tuple[Workload, tuple[Argument, ...]]],
) -> tuple[list[Size], list[str]]:
    """The sizes to run, the first of `calls` always among them; and kernels of the primary call that none of
    them launches as that does."""
    runner.record([primary, *(call for _, call in calls)])
    wanted = _reached(runner.recorded(primary).launches)
    sizes = [Size(workload, runner.recorded(call).launches) for workload, call in calls]
    chosen, rest = [sizes[0]], [size for size in sizes[1:] if size.possible]
    while len(chosen) < CHOSEN and rest:
        missing = wanted.difference(*(size.reached for size in chosen))
        best = max(rest, key=lambda size: len(missing & size.reached))  # of equals, the first
        chosen.append(best)
        rest.remove(best)
    left = wanted.difference(*(size.reached for size in chosen))
    return chosen, sorted({kernel for kernel, _ in left})


def primary_call(task: Task, scalars: Sequence[object]) -> tuple[Argument, ...]:
    """The arguments of a call at the primary workload whose tensors are nowhere: it can only be recorded."""
    starts = accumulate(sizes := slot_bytes(task.signature, [task.primary]), initial=0)
    slots = tuple(Slot(start, size) for start, size in zip(starts, sizes, strict=False))
    arena = Arena(torch.empty(0, dtype=torch.uint8), slots)
    return lay_out(arena, task.signature, task.primary, random.Random()).arguments(task.signature, scalars)


def _reached(launches: Sequence[Launch]) -> set[tuple[str, bool]]:
    """Kernels, and whether more than one cluster of each is launched."""
    return {(one.kernel, several) for one in launches for several in (False, _several(one))}


def _warps(launch: Launch) -> int:
    return prod(launch.grid) * -(-prod(launch.block) // WARP)


def _several(launch: Launch) -> bool:
    return prod(launch.grid) > max(1, prod(launch.cluster))
