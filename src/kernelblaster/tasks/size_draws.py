"""Draws secret sizes for verification: workloads (values for all sizes of a task) that candidates cannot
know, smaller than, next to and larger than the task's own.

Which sizes a module accepts is found by trying, which costs milliseconds to seconds. So a pool of up to 24
accepted draws (POOL) is made once per task and process, with an unpredictable random generator. Every
evaluation uses some of them.
"""

import secrets
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from random import Random
from typing import Literal

from kernelblaster.errors import BadTask
from kernelblaster.processes.processor_time import WorkLimit
from kernelblaster.records import Task, Tensor, Workload
from kernelblaster.records.workload import WorkloadName
from kernelblaster.tasks.derive import UnequalSizes, workload_of
from kernelblaster.tasks.facts import Facts, learn
from kernelblaster.tasks.module_file import ModuleFile
from kernelblaster.tasks.module_state import cast_of
from kernelblaster.tasks.small import find_small

# few: a few hundred kilobytes, no extent below 4, and every size once in each octave up to the base's;
# edge: some extents 1, 2 or 3; round: powers of two and multiples of 128, up to the base; tiled: multiples of
# 128 alone, up to the primary workload's; below: up to the base; beside: off by little; above: larger than
# the base; long: one size far above, another 1, 2 or 3, and every size once at least half as far as can be;
# stretched, around small workloads: one size above the primary one's, all others 1, 2 or 3.
Kind = Literal["few", "edge", "round", "tiled", "below", "beside", "above", "long", "stretched"]
POOL = 24
MOST_OCTAVES = 32  # draws beyond those, for octaves of sizes
ROUND: tuple[Kind, ...] = (
    *("few", "edge", "long", "above", "tiled", "few", "beside", "below", "few", "edge", "long", "round"),
)
NAMES: dict[Kind, WorkloadName] = {
    "few": "below",
    "edge": "below",
    "round": "below",
    "tiled": "below",
    "below": "below",
    "beside": "beside",
    "above": "above",
    "long": "above",
    "stretched": "above",
}
STRETCHED_BYTES = 512 << 10
STRETCHED = 1.2  # times the primary extent, at most
MOST_STRETCHED = 1 << 14  # of primary extents
FEW_BYTES, LEAST_FEW_BYTES = 256 << 10, 48 << 10
LARGEST_SHARE, LARGEST_EXTRA_BYTES = 1.3, 4 << 20  # all tensors together, over the base's
LONGEST = 16.0  # times the base's extent
SHORT_LONGEST = 8.0  # the same where the base is a small workload
TILE = 128
LIMIT_S = 3.0
ATTEMPTS = 4  # draws of a kind before it is given up for this round
APART = (13, 8, 5, 3, 2, 1)  # steps between sizes that are to differ
STEPS = (1, 2, 3, 4, 5, 6, 7, 8, 16, 32, 64, 128)


@dataclass(frozen=True)
class SizeDraw:
    """One set of sizes that the task accepts, as a workload; `kind` says how it relates to the task's own
    sizes (larger, one of them very long, powers of two, ...; see `Kind`)."""

    kind: Kind
    workload: Workload


class SizeDraws:
    """A pool of drawn sizes for one task, around a base workload. The base is the primary workload (the sizes
    that are timed) or, with `small`, the task's small one for the emulator, which must exist. All tensors of
    a draw together take at most 1.3 times as many bytes as those of the base, plus 4 MiB (with `small`: twice
    as many), and at most `most_bytes` if that is given. `limit_s` is the processor time in seconds for trying
    sizes. If this limit ends the search, the pool has fewer draws, and the attribute `cut_short` is then
    True. `rng` makes draws repeatable, for tests; None: they are unpredictable.

    With `small`, there are also "stretched" draws: one size is above its value in the primary workload, and
    all others are 1 to 3. Sizes with a value above `most_stretched` in the primary workload are never
    stretched.
    """

    def __init__(
        self,
        task: Task,
        *,
        small: bool = False,
        most_bytes: int | None = None,
        most_stretched: int = MOST_STRETCHED,
        limit_s: float = LIMIT_S,
        rng: Random | None = None,
    ) -> None:
        self._task = task
        self._small = small
        self._limit_s = limit_s
        self._most_stretched = most_stretched
        self._rng = rng or Random(secrets.randbits(256))
        # For each kind the number of the size that it last made larger than the others.
        self._picked: defaultdict[Kind, int] = defaultdict(lambda: self._rng.randrange(64))
        self._far: set[str] = set()  # sizes that were drawn far above the base
        self.cut_short = False  # whether the time limit ended the pool
        self.base = task.workload("small") if small else task.primary
        total = self.base.total_bytes(task.signature)
        cap = int(total * (2 if small else LARGEST_SHARE)) + (0 if small else LARGEST_EXTRA_BYTES)
        self._near_bytes = most_bytes or cap
        self._most_bytes = cap if most_bytes is None else min(cap, most_bytes)
        parameters = sum(self.base.bytes(tensor) for tensor in task.signature.parameters)
        self._few_bytes = parameters + min(FEW_BYTES, max(total, LEAST_FEW_BYTES))
        # Up to where every octave is drawn: the primary extents, around a small workload as well.
        most = max(most_stretched, MOST_STRETCHED)
        self._widest = {n: max(v, min(task.primary.sizes[n], most)) for n, v in self.base.sizes.items()}

    @cached_property
    def draws(self) -> tuple[SizeDraw, ...]:
        """The pool of drawn sizes, made at the first use. It has at most 24 distinct draws (POOL) of the
        kinds that the task allows, then up to 32 more (MOST_OCTAVES) with few elements. In each of the
        latter, one size lies in a given octave (4 to 8, 8 to 16, and so on, up to the size's own value).
        There is one draw for each pair of a size and an octave; if there are more than 32 pairs, some are
        chosen at random. There are fewer draws if the time limit ends the search; none if the task has no
        size that may vary."""
        free = [size.name for size in self._task.signature.sizes if size.kind == "free"]
        if not free:
            return ()
        accept, steps = self._accepting
        limit = WorkLimit(self._limit_s)
        draws: dict[tuple[int, ...], SizeDraw] = {}
        for turn in range(2 * POOL):
            if len(draws) >= POOL or limit.reached:
                break
            kind = ROUND[turn % len(ROUND)]
            if self._small and turn < 2 * len(free):
                kind = "stretched"  # every size twice
            draw = self._draw(kind, steps, accept)
            if draw is not None:
                draws.setdefault(tuple(draw.workload.sizes.values()), draw)
        for name, octave in self._octaves(free):
            if limit.reached:
                break
            draw = self._draw("few", steps, accept, {name: octave})
            if draw is not None:
                draws.setdefault(tuple(draw.workload.sizes.values()), draw)
        self.cut_short = limit.met
        return tuple(draws.values())

    def _octaves(self, names: list[str]) -> list[tuple[str, int]]:
        """(size name, k) for every octave, extents from 2**k to 2**(k+1), of every size in `names`, from 4 up
        to its extent in the base or primary workload: at most MOST_OCTAVES pairs, in random order."""
        octaves = [(n, k) for n in names for k in range(2, self._widest[n].bit_length())]
        self._rng.shuffle(octaves)
        return octaves[:MOST_OCTAVES]

    @cached_property
    def _accepting(self) -> "tuple[Accept, dict[str, int]]":
        """(function that returns the workload for given extents, or None if the task refuses them; the step
        of each free size: the distance between extents that the task accepts, see `_step`)."""
        free = [size.name for size in self._task.signature.sizes if size.kind == "free"]
        accept = self._accept()
        return accept, {name: self._step(name, accept) for name in free}

    def near(self, low: int, high: int, unit: int = 1) -> list[Workload]:
        """Returns new workloads, one for each free size (a size that may vary). Each is the base workload,
        around which all sizes here are drawn, with that one size changed to a random multiple of `unit`
        from `low` to `high`. The new value is at most the size's value in the primary or the base workload,
        whichever is larger, and is rounded to a value that the task accepts. Workloads that the task refuses
        or that need too much memory are left out."""
        accept, steps = self._accepting
        workloads = []
        for name, step in steps.items():
            most = max(self._task.primary.sizes[name], self.base.sizes[name])
            drawn = min(self._rng.randint(low // unit, high // unit) * unit, most)
            workload = accept("above", {name: _stepped(drawn, self.base.sizes[name], step)})
            if workload is not None and workload.total_bytes(self._task.signature) <= self._near_bytes:
                workloads.append(workload)
        return workloads

    def apart(self, names: Sequence[str]) -> Workload | None:
        """Returns the base workload, around which all sizes here are drawn, with the free sizes `names`
        changed, so that sizes which are equal there become different. The first size stays; the second grows
        by k steps, the third by 2k, and so on, where a step is the distance between values that the task
        accepts. k is the largest of 13, 8, 5, 3, 2 and 1 (APART) that the task accepts; None if it accepts
        none."""
        accept, steps = self._accepting
        for times in APART:
            larger = {n: self.base.sizes[n] + steps[n] * times * place for place, n in enumerate(names)}
            workload = accept("beside", larger)
            if workload is not None:
                return workload
        return None

    def without_ones(self, workload: Workload) -> Workload:
        """Returns a copy of `workload` in which no free size (one that may vary) is 1: each that is gets a
        small value from 3 on. A new value differs from the size's value in the base workload, around which
        all sizes here are drawn. Sizes that are 1 in the base workload stay 1. Returns `workload`
        unchanged if the task accepts no such values."""
        accept, steps = self._accepting
        ones = [name for name in steps if workload.sizes[name] == 1 < self.base.sizes[name]]
        own = {name: workload.sizes[name] for name in steps}
        for more in range(2, 10):
            larger = {name: 1 + more * steps[name] for name in ones}
            accepted = accept(workload.name, own | larger)
            if accepted is not None and all(value != self.base.sizes[n] for n, value in larger.items()):
                return accepted
        return workload

    def of(self, *kinds: Kind) -> list[Workload]:
        """Returns the workloads in the pool that were drawn in one of these ways (`kinds`: larger, one size
        very long, powers of two, and others that `Kind` lists)."""
        return [draw.workload for draw in self.draws if draw.kind in kinds]

    def above(self, size: str) -> list[Workload]:
        """Returns the pool's workloads in which the size named `size` is larger than in the base workload,
        around which all sizes here are drawn: up to twice as large (drawn in the way called `above`) or up
        to 16 times (`long`; 8 times if the base is a small workload)."""
        return [w for w in self.of("above", "long") if w.sizes[size] > self.base.sizes[size]]

    def stretched(self, size: str) -> list[Workload]:
        """Returns the pool's workloads in which the size named `size` is larger than in the primary workload
        (the one that is timed), and all other sizes are 1 to 3 (drawn in the way called `stretched`)."""
        return [w for w in self.of("stretched") if w.sizes[size] > self._task.primary.sizes[size]]

    def largest_bytes(self, tensor: Tensor) -> int:
        """Returns the most bytes that `tensor` takes in any workload that verification may use: the drawn
        ones and all of the task's own or, if the draws are around the task's small workload, the drawn ones
        and the small one."""
        own = [self.base] if self._small else list(self._task.workloads)
        return max(workload.bytes(tensor) for workload in (*own, *(d.workload for d in self.draws)))

    def _draw(
        self, kind: Kind, steps: dict[str, int], accept: "Accept", octaves: dict[str, int] | None = None
    ) -> SizeDraw | None:
        """Draws sizes of a kind, reduced until the tensors fit the limit of bytes; None if the task accepted
        none in ATTEMPTS tries. `steps` has for each free size the distance between extents to try, `accept`
        tells which extents the task accepts. `octaves` maps some size names to a k: these sizes are drawn
        from 2**k to 2**(k+1)."""
        limit = self._few_bytes if kind in ("few", "edge") else self._most_bytes
        if kind in ("stretched", "tiled"):
            limit = max(limit, STRETCHED_BYTES)
        for _ in range(ATTEMPTS):
            stretchable = [n for n in steps if self._task.primary.sizes[n] <= self._most_stretched]
            if kind == "stretched" and not stretchable:
                return None
            wanted = (
                self._stretch(list(steps), stretchable)
                if kind == "stretched"
                else self._wish(kind, list(steps))
            )
            fixed = {n: _log_uniform(self._rng, 1 << k, 2 << k) for n, k in (octaves or {}).items()}
            wanted |= {n: min(extent, self._widest[n]) for n, extent in fixed.items()}
            while True:
                if kind == "tiled":  # also after they were reduced
                    wanted = {name: _tiled(extent) for name, extent in wanted.items()}
                stepped = {
                    name: _stepped(extent, self.base.sizes[name], steps[name])
                    for name, extent in wanted.items()
                }
                if self._input_bytes(stepped) <= limit:  # else there is no need to ask the task
                    workload = accept(NAMES[kind], stepped)
                    if workload is None or workload.sizes == self.base.sizes:
                        break
                    if workload.total_bytes(self._task.signature) <= limit:
                        return SizeDraw(kind, workload)
                largest = max(wanted, key=lambda name: wanted[name], default="")
                if kind == "tiled" and wanted[largest] > TILE and largest not in fixed:
                    smaller = wanted | {largest: max(TILE, wanted[largest] // 2)}  # others stay multiples
                else:
                    smaller = self._smaller(wanted, fixed)
                if smaller == wanted:
                    break
                wanted = smaller
        return None

    def _input_bytes(self, extents: dict[str, int]) -> int:
        """How many bytes the inputs take with these extents of free sizes, the others as in the base."""
        workload = self.base.model_copy(update={"sizes": self.base.sizes | extents})
        return sum(workload.bytes(tensor) for tensor in self._task.signature.input_tensors)

    def _smaller(self, wanted: dict[str, int], fixed: Collection[str]) -> dict[str, int]:
        """One step from the `wanted` extents (by size name) towards a smaller workload: the largest of the
        extents that are neither in `fixed` nor above the base workload's is reduced by a third. If there is
        none, extents above the base's are moved halfway towards them, and stay above. Returns `wanted` if
        nothing can be reduced."""
        base = self.base.sizes
        plain = [name for name, extent in wanted.items() if 1 < extent <= base[name] and name not in fixed]
        if plain:
            largest = max(plain, key=lambda name: wanted[name])
            return wanted | {largest: max(1, wanted[largest] * 2 // 3)}
        return {n: base[n] + (v - base[n] + 1) // 2 if v > base[n] else v for n, v in wanted.items()}

    def _stretch(self, names: list[str], stretchable: list[str]) -> dict[str, int]:
        """Wanted extents by size name, for a `stretched` draw: one size of `stretchable`, a different one at
        each call, above its primary extent by up to about STRETCHED times; all others from 1 to 3."""
        self._picked["stretched"] += 1
        picked = stretchable[self._picked["stretched"] % len(stretchable)]
        most = self._task.primary.sizes[picked]
        extent = self._rng.randint(most + 2, int(most * STRETCHED) + 8)
        return {name: self._rng.randint(1, 3) for name in names} | {picked: _ragged(self._rng, extent)}

    def _wish(self, kind: Kind, names: list[str]) -> dict[str, int]:
        """Wanted extents, by size name, of the free sizes `names` for a draw of this kind; whether the task
        accepts them is not yet known."""
        rng = self._rng
        base = {name: self.base.sizes[name] for name in names}
        each: dict[Kind, Callable[[int], int]] = {
            "beside": lambda v: max(1, _beside(rng, v)),
            "below": lambda v: _ragged(rng, int(v * 2 ** rng.uniform(-3, 0))),
            "round": lambda v: _round(rng, _log_uniform(rng, 1, v)),
        }
        if kind == "tiled":
            most = self._task.primary.sizes
            return {name: _log_uniform(rng, min(TILE, most[name]), most[name]) for name in names}
        if kind in each:
            return {name: each[kind](extent) for name, extent in base.items()}
        self._picked[kind] += 1  # in turn, so that every size is drawn above the base
        picked = names[self._picked[kind] % len(names)]
        if kind == "above":
            wish = {n: _ragged(rng, int(v * rng.uniform(0.7, 1.1))) for n, v in base.items()}
            return wish | {picked: _ragged(rng, int(base[picked] * rng.uniform(1.05, 2.0)) + 1)}
        wish = {n: _ragged(rng, _log_uniform(rng, min(4, v), v)) for n, v in base.items()}
        if kind == "edge":
            count = rng.randint(1, len(names))
            return wish | {name: rng.randint(1, 3) for name in rng.sample(names, count)}
        if kind == "long":
            longest = SHORT_LONGEST if self._small else LONGEST
            others = [name for name in names if name != picked]
            short = {name: rng.randint(1, 3) for name in rng.sample(others, min(1, len(others)))}
            least = base[picked] + 2
            if picked not in self._far:  # once for every size
                self._far.add(picked)
                least = max(least, int(base[picked] * longest / 2))
            extent = _log_uniform(rng, least, int(base[picked] * longest))
            return wish | short | {picked: _ragged(rng, extent)}
        return wish

    def _step(self, name: str, accept: "Accept") -> int:
        """The smallest distance above the base extent, of those in STEPS and that extent itself, at which the
        task accepts another extent of the size `name`; 1 if it accepts none. Wanted extents are rounded to
        whole numbers of such steps."""
        base = self.base.sizes[name]
        for step in (*STEPS, base):
            if accept("beside", {name: base + step}) is not None:
                return step
        return 1

    def _accept(self) -> "Accept":
        """The function that tells which sizes the task accepts: given a workload name and extents of some
        free sizes, it returns the workload in which the other sizes are as in the base, or None if the task
        refuses it."""
        task, base = self._task, self.base
        if task.kind == "cuda":
            return lambda name, extents: Workload(name=name, sizes=base.sizes | extents)
        facts = self._facts()
        inputs = task.signature.input_tensors

        def accept(name: WorkloadName, extents: dict[str, int]) -> Workload | None:
            sizes = base.sizes | extents
            shapes = tuple(tuple(sizes[dim] for dim in tensor.dims) for tensor in inputs)
            outputs = facts.probe.outputs(shapes)
            if outputs is None or len(outputs) != len(task.signature.outputs):
                return None
            try:
                return workload_of(name, task.signature, facts, shapes)
            except UnequalSizes:
                return None

        return accept

    def _facts(self) -> Facts:
        """Shapes and types of the module as it is built for the base workload: with the file's own constants
        or, if draws are around the small workload, with smaller ones. Raises BadTask if smaller ones are
        needed and there are none."""
        file = ModuleFile(self._task.source, self._task.path)
        dtype = cast_of(self._task)
        if self.base.module == "primary":
            return learn(file, dtype)
        constants = find_small(file, dtype)
        if constants is None:
            raise BadTask(f"{self._task.name}: has no small workload to draw sizes around.")
        with file.replaced(constants):
            return learn(file, dtype, on="cpu", small=True)


def most_read_bytes(task: Task) -> int:
    """Returns the most bytes that all inputs and parameters of a task may take together at any workload that
    candidates are judged at. That is more than they take at the primary one, since drawn sizes may be
    larger."""
    read = sum(task.primary.bytes(tensor) for tensor in task.signature.read_tensors)
    return int(read * LARGEST_SHARE) + LARGEST_EXTRA_BYTES


Accept = Callable[[WorkloadName, dict[str, int]], Workload | None]


def _log_uniform(rng: Random, low: int, high: int) -> int:
    """A random integer from `low` (at least 1) to `high`, uniform in its logarithm; `low` if `high` is
    smaller."""
    return int(low * (max(high, low) / low) ** rng.random())


def _ragged(rng: Random, extent: int) -> int:
    """A random extent near the given one: itself, odd, or a multiple of 4, 8 or 32 or one beside it, where
    kernels' vector accesses and warps end."""
    choice = rng.randrange(4)
    if choice == 0 or extent < 8:
        return max(1, extent)
    if choice == 1:
        return extent | 1
    multiple = rng.choice([m for m in (4, 8, 32) if 2 * m <= max(extent, 8)])
    return extent // multiple * multiple + rng.choice((-1, 0, 1))


def _round(rng: Random, extent: int) -> int:
    """An extent that people would choose: the largest power of two that is not above `extent` or, from 128
    on, at random the largest multiple of 128."""
    if extent < 128 or rng.random() < 0.5:
        return 1 << (extent.bit_length() - 1)
    return extent // 128 * 128


def _tiled(extent: int) -> int:
    """The largest multiple of TILE (128) up to an extent; the largest power of two if the extent is below
    TILE."""
    return extent // TILE * TILE if extent >= TILE else 1 << (extent.bit_length() - 1)


def _beside(rng: Random, extent: int) -> int:
    """A random extent within 5 of the given one, or within about a tenth of it; it may be 0 or negative."""
    if rng.random() < 0.6:
        return extent + rng.choice((-5, -4, -3, -2, -1, 1, 2, 3, 4, 5))
    return _ragged(rng, int(extent * rng.uniform(0.9, 1.1)))


def _stepped(extent: int, base: int, step: int) -> int:
    """The positive extent nearest to `extent` that differs from `base` by a multiple of `step`."""
    stepped = base + round((extent - base) / step) * step
    return stepped if stepped > 0 else stepped + step
