"""Size check: the last check of a candidate that seems faster by its modelled time. It was verified on the
emulator at small workloads only. Here it is run at the primary workload, the sizes that its time was modelled
for.

If the call is a single launch whose blocks are independent, some of its blocks are run, drawn in secret. Any
other call is run whole, unless that would take the emulator too long. Results are compared on many kinds of
values (slab_cases.py). A second call then finds errors that depend on what the first one left in memory.
Calls at some other, drawn workloads follow. Those with few elements and one very large size are run whole.
"""

import random
from dataclasses import dataclass

import torch

from kernelblaster.devices.device import CandidateDied, CandidateHung, Device
from kernelblaster.devices.emulated import EmulatedRunner
from kernelblaster.errors import KernelBlasterError
from kernelblaster.judge.baseline import Baseline, KernelBaseline, ModuleBaseline
from kernelblaster.judge.compile import Binary
from kernelblaster.judge.large_call import CallCoverage, LargeTask
from kernelblaster.judge.layout import lay_out, slot_bytes
from kernelblaster.judge.modelled import primary_scalars
from kernelblaster.judge.prepare import Prepared
from kernelblaster.judge.size_runs import WHOLE_WORK, SizeRuns, uncovered
from kernelblaster.judge.stop import Failure, Stop, failure
from kernelblaster.judge.under_test import one_thread
from kernelblaster.ptx.machine import ACCESS_WORK, NotEmulated
from kernelblaster.records import KernelProfile, Profile, Task, Verification, Workload
from kernelblaster.records.profile import MOST_KERNELS
from kernelblaster.tasks.independence import independent_sizes
from kernelblaster.tasks.size_draws import SizeDraws
from kernelblaster.tasks.values import fill

MOST_BYTES = 2 << 30  # of a workload's tensors
OTHER_BYTES = 256 << 20  # of those of drawn sizes
OTHERS = 4  # drawn sizes
LONG_BYTES = 16 << 20  # of workloads with one very large extent and few elements, of which all blocks are run
MORE_WORK = (
    1.5  # times the work that the modelled time is of: the most that a call at the same sizes may take
)
DRAW_LIMIT_S = 1.0  # for trying drawn sizes
NOTE = "sizes: "


@dataclass(frozen=True)
class SizesRun:
    """What a size check (a run at the timed sizes) returns if it found nothing wrong. `note` says what was
    run. If that is too little for the modelled time to count, `missing` says what is missing; None if it is
    enough."""

    note: str
    missing: str | None = None


class SizeCheck:
    """Checks on the emulator (`device`) that candidates are correct at the large sizes for which their time
    is modelled; before, they were verified at small sizes only. What this needs of a task is prepared once
    and kept."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._tasks: dict[str, LargeTask] = {}
        self._sizes: dict[str, list[Workload]] = {}
        self._long: dict[str, dict[str, Workload]] = {}

    def look(
        self, prepared: Prepared, binary: Binary, profile: Profile | None, seed: int
    ) -> Failure | SizesRun:
        """Checks a compiled candidate (`binary`, for the task in `prepared`) at the sizes that its time was
        modelled for, after it passed verification at small sizes. Returns the outcome if it is wrong there,
        else a description of what was run. `profile` is its modelled profile at the primary workload (the
        timed sizes), None if there is none. `seed` draws values and blocks; the candidate must not know
        it."""
        where = "at the primary sizes"
        try:
            with one_thread():
                return self._look(prepared, binary, profile, random.Random(seed))
        except Stop as stop:
            return stop.outcome
        except (CandidateDied, CandidateHung) as error:
            return failure(error, "verify", where)
        except NotEmulated as error:
            return SizesRun(f"{NOTE}not run {where}", str(error))

    def close(self) -> None:
        """Forgets what was prepared for tasks, and closes their baselines (the processes that run
        references)."""
        for known in self._tasks.values():
            known.baseline.close()
        self._tasks.clear()
        self._sizes.clear()
        self._long.clear()

    def _look(
        self, prepared: Prepared, binary: Binary, profile: Profile | None, rng: random.Random
    ) -> SizesRun:
        task, known = prepared.task, self._known(prepared, rng)
        primary = _affordable(task, known, profile)
        alone = isinstance(known.baseline, KernelBaseline) and not known.independent
        if primary is None or alone or primary.total_bytes(task.signature) > MOST_BYTES:
            return SizesRun(f"{NOTE}small workloads only", _too_large(task))
        others = self._others(known, rng)
        long = self._long_ones(task)
        arena = self._device.arena(slot_bytes(task.signature, [primary, *others, *long.values()]))
        runner = self._device.start(binary.path)
        assert isinstance(runner, EmulatedRunner)
        try:
            run = SizeRuns(
                self._device, known, runner, arena, prepared.planner.domain, prepared.floor.operations
            )
            seen = run.thoroughly(primary, rng)
            for workload in others:
                run.once(workload, rng)
            for name, workload in long.items():
                run.whole(workload, rng, steps=name not in known.independent)
        finally:
            runner.close()
        if seen is None or primary.sizes != task.primary.sizes:
            most = f"{NOTE}run up to {primary.sizes}" if seen is not None else f"{NOTE}small workloads only"
            return SizesRun(most, _too_large(task))
        missing = uncovered(seen) or _timed_otherwise(seen, profile)
        return SizesRun(_note(seen, run.compared, len(others) + len(long)), missing)

    def _known(self, prepared: Prepared, rng: random.Random) -> LargeTask:
        task = prepared.task
        if task.digest not in self._tasks:
            baseline = prepared.baseline
            if isinstance(baseline, ModuleBaseline):
                baseline = baseline.large(primary_scalars(task))
            independent = self._independent(prepared, rng)
            self._tasks[task.digest] = LargeTask(task, baseline, independent, prepared.rounding)
        return self._tasks[task.digest]

    def _independent(self, prepared: Prepared, rng: random.Random) -> tuple[str, ...]:
        """The names of a task's independent sizes (those whose indices do not affect each other's results),
        found by running the reference at its small workload."""
        task, baseline = prepared.task, prepared.baseline
        small = prepared.planner.sizes.base
        baseline = baseline.at(small)
        inputs = [
            torch.empty(small.shape(t), dtype=getattr(torch, t.dtype)) for t in task.signature.input_tensors
        ]
        for position, value in enumerate(inputs):
            fill(value, baseline.pools[position], "written", small, rng.getrandbits(40))
        self._device.arena(slot_bytes(task.signature, [small]))
        if isinstance(baseline, KernelBaseline):
            baseline.start()
        try:
            return independent_sizes(
                task.signature,
                small,
                inputs,
                lambda workload, values: self._outputs(task, baseline, workload, values),
                rng,
            )
        finally:
            baseline.close()

    def _outputs(
        self, task: Task, baseline: Baseline, workload: Workload, inputs: list[torch.Tensor]
    ) -> list[torch.Tensor] | None:
        """The outputs of the baseline (the reference for `task`) at `workload` on these inputs; None if it
        refuses them, as one does whose indices point beyond a part of its rows."""
        layout = lay_out(self._device.arena(), task.signature, workload, random.Random(0))
        for tensor, value in zip(task.signature.input_tensors, inputs, strict=True):
            layout.view(tensor).copy_(value)
        for tensor, value in zip(task.signature.parameters, baseline.at(workload).parameters, strict=True):
            layout.view(tensor).copy_(value)
        try:
            return [output.clone() for output in baseline.at(workload).outputs(layout)]
        except KernelBlasterError:
            if isinstance(baseline, KernelBaseline):
                baseline.start()  # in new processes: the old ones ended with the failure
            return None
        except RuntimeError:
            return None

    def _others(self, known: LargeTask, rng: random.Random) -> list[Workload]:
        """Some drawn workloads for the task `known` that take moderate memory, others at each call: for each
        free size (one that may vary) the workload in which it is largest, then further ones, until there are
        OTHERS."""
        task = known.task
        if task.digest not in self._sizes:
            draws = SizeDraws(task, limit_s=DRAW_LIMIT_S)
            self._sizes[task.digest] = [
                *(w for s in task.signature.sizes if s.kind == "free" for w in draws.above(s.name)),
                *draws.of("beside", "tiled", "round"),
            ]
        most = OTHER_BYTES if known.independent else OTHER_BYTES // 16  # all of them is compared
        drawn = [w for w in self._sizes[task.digest] if w.total_bytes(task.signature) <= most]
        free = [size.name for size in task.signature.sizes if size.kind == "free"]
        longest = [max(drawn, key=lambda w: w.sizes[name]) for name in free if drawn]
        chosen = {tuple(w.sizes.values()): w for w in (*longest, *rng.sample(drawn, len(drawn)))}
        return list(chosen.values())[: max(OTHERS, len(longest))]

    def _long_ones(self, task: Task) -> dict[str, Workload]:
        """For each free size, by its name, a workload with few elements in which that size is several times
        that of the primary workload; sizes without one are left out."""
        if task.digest not in self._long:
            draws = SizeDraws(task, most_bytes=LONG_BYTES, limit_s=DRAW_LIMIT_S)
            free = [size.name for size in task.signature.sizes if size.kind == "free"]
            found = {n: max(above, key=lambda w: w.sizes[n]) for n in free if (above := draws.above(n))}
            self._long[task.digest] = found
        return self._long[task.digest]


def _timed_otherwise(seen: CallCoverage, profile: Profile | None) -> str | None:
    """Why the modelled time is not that of this call, in words: the blocks that were run did more work than
    those that the time was modelled from, so the candidate may recognize when it is timed. None if there is
    no such difference, or if the profile does not count work."""
    timed = _modelled_work(profile) * seen.share if profile is not None else 0.0
    if not timed or profile is None or len(profile.kernels) >= MOST_KERNELS:
        return None
    if seen.work <= MORE_WORK * timed:
        return None
    return (
        f"{seen.share:.2%} of the blocks took {seen.work:.3g} units of work there, but {timed:.3g} when "
        "their time was modelled"
    )


def _affordable(task: Task, known: LargeTask, profile: Profile | None) -> Workload | None:
    """The largest workload at which a whole call is not too much work for the emulator, by the counts in the
    profile: the primary one (the timed sizes), or one with a smaller independent size; None if there is none.
    A single launch can be run in part, so for it the primary one is returned."""
    work = _modelled_work(profile) if profile is not None else 0.0
    if profile is None or len(_launches(profile)) <= 1 or work <= WHOLE_WORK:
        return task.primary
    if not known.independent:
        return None
    name = max(known.independent, key=lambda one: task.primary.sizes[one])
    extent = int(task.primary.sizes[name] * WHOLE_WORK / work)
    sizes = task.primary.sizes | {name: extent}
    return task.primary.model_copy(update={"name": "below", "sizes": sizes}) if extent else None


def _launches(profile: Profile) -> list[KernelProfile]:
    """The kernels of a profile, without copies and fills."""
    return [kernel for kernel in profile.kernels if not kernel.name.startswith("[")]


def _modelled_work(profile: Profile) -> float:
    """The work of a whole call by the counts in its modelled profile, in the units of `Draws.most_work` (warp
    instructions, memory accesses weighted)."""
    return sum(_work(kernel) for kernel in _launches(profile))


def _work(kernel: KernelProfile) -> float:
    """How much work one launch is for the emulator, by the counts in its profile: executed warp instructions,
    plus ACCESS_WORK for each access to global or shared memory. The same unit as `Draws.most_work`, the
    emulator's limit."""

    def value(name: str) -> float:
        metric = kernel.metric(name)
        return float(metric.value) if metric is not None else 0.0

    requests = [f"l1tex__t_requests_pipe_lsu_mem_global_op_{way}.sum" for way in ("ld", "st")]
    accesses = [*requests, "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum"]
    return value("smsp__inst_executed.sum") + ACCESS_WORK * sum(value(name) for name in accesses)


def _too_large(task: Task) -> str:
    return (
        "a call at the primary workload is more work than is emulated before a verdict "
        f"({task.primary.total_bytes(task.signature) / 1e6:.0f} MB of tensors)"
    )


def _note(seen: CallCoverage, compared: int, others: int) -> str:
    blocks = "all blocks" if seen.share >= 1 else f"{seen.share:.2%} of the blocks"
    also = f"; also at {others} drawn sizes" if others else ""
    return f"{NOTE}primary workload run, {blocks}, {compared} elements compared{also}"


def was_run(verification: Verification) -> bool:
    """True if the verification has a note of the size check (a run at the sizes that the candidate's time is
    modelled for), so that it need not be made again."""
    return any(note.startswith(NOTE) for note in verification.notes)
