"""Whether the expert's kernels are as fast as before its plan was redesigned: old and new timed side by side.

    python benchmarks/old_and_new.py FILE [TASK ...] [--seconds 540] [--device cuda|emulated] [--out PAGE.md]

FILE is written by old_and_new_sources.py, without a GPU: pairs of sources that the same path of techniques
gave before and gives now, for every task that was covered then. Both sources of a pair are verified against
PyTorch, as any candidate is; then the judge times the new one with the old one as its baseline, call by call
in random order, on the same fresh values and with a cold cache. A ratio is new over old time with its 99%
interval. Races are not looked for.

First comes one pair of each task, then the second pairs, then the third. PAGE is written anew after each
pair, so that it is true whenever this ends; nothing is begun after --seconds. Tasks all of whose paths give
the same program as before are not timed; one of the means has a ratio of 1 for them.
"""

import argparse
import gc
import json
import math
import random
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

import torch

from kernelblaster.devices.device import Device, synchronize
from kernelblaster.errors import DeviceLost, KernelBlasterError
from kernelblaster.judge.baseline import KernelBaseline, ModuleBaseline
from kernelblaster.judge.cases import SecretDraw
from kernelblaster.judge.clock import clock_of
from kernelblaster.judge.compile import Binary, compile_candidate, compilers
from kernelblaster.judge.layout import Layout
from kernelblaster.judge.options import EvaluationOptions
from kernelblaster.judge.prepare import Prepared, TaskPreparer
from kernelblaster.judge.under_test import CandidateUnderTest
from kernelblaster.opening import open_device
from kernelblaster.records import Candidate, Outcome, Task, Timing, Verification, Workload
from kernelblaster.records.outcome import Speedup
from kernelblaster.tasks.domain import Domain

WORST = 1.03  # new over old time that no task may exceed at the same techniques
RIGHT = "right"
HEAD = (
    "| task | pair | old us | new us | new over old | 99% interval | old | new | techniques |",
    "|---|---|---|---|---|---|---|---|---|",
)


class OldKernel(KernelBaseline):
    """A kernel for a module task as what is timed against. Reference outputs, values and float64 results are
    those of the module, `reference`, so that a candidate is verified as always."""

    def __init__(self, task: Task, device: Device, binary: Path, reference: ModuleBaseline) -> None:
        self.title = "old kernel"
        self.binary = binary
        self._task, self._device, self._runner = task, device, None
        self._reference = reference
        self.pools, self.parameters = reference.pools, reference.parameters

    @property
    def scalars(self) -> list[Any]:  # type: ignore[override]
        return self._reference.scalars

    def with_scalars(self, scalars: Sequence[Any] | None) -> AbstractContextManager[None]:
        return self._reference.with_scalars(scalars)

    def domain(self, workload: Workload, rng: Random) -> Domain:
        return self._reference.domain(workload, rng)

    def at(self, workload: Workload) -> Any:
        """This kernel where its reference is the same module, else the module of that workload."""
        there = self._reference.at(workload)
        return self if there is self._reference else there

    def outputs(self, layout: Layout) -> list[torch.Tensor]:
        return self._reference.outputs(layout)

    def wide(self, inputs: list[torch.Tensor], parameters: list[torch.Tensor]) -> list[torch.Tensor] | None:
        return self._reference.wide(inputs, parameters)

    def timed(self, layout: Layout) -> tuple[float, list[torch.Tensor]]:
        """The kernel's time in us for one call with a cold L2 cache, and the module's outputs."""
        assert self._runner is not None
        synchronize(self._device.torch_device)
        report = self._runner.time(layout.arguments(self._task.signature, self.scalars))
        if report.call.error or report.call.findings:
            raise KernelBlasterError(f"the old kernel failed: {report.call.error or report.call.findings[0]}")
        return report.event_us, self.outputs(layout)


@dataclass(frozen=True)
class Pair:
    """A path of techniques of a task, the `place`-th that is timed (from 1), with both sources."""

    task: str
    place: int
    techniques: str
    old: str
    new: str


@dataclass(frozen=True)
class Compared:
    """What became of a pair: both verdicts, and the timing of the new source with the old as its baseline;
    None if one of the two is not right."""

    pair: Pair
    old: str
    new: str
    timing: Timing | None

    @property
    def ratio(self) -> float | None:
        """New over old time."""
        return 1 / self.timing.speedup.estimate if self.timing else None


class Comparer:
    """Judges pairs on one device. Prepared tasks are kept while there is room for them."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._clock = clock_of(device, keep_samples=False)
        options = EvaluationOptions()
        self._tasks = TaskPreparer(device, options, self.compile, self._clock.largest_bytes)

    def compile(self, task: Task, candidate: Candidate) -> Binary | Outcome:
        return compile_candidate(task, candidate, self._device.spec.architecture)

    def prepare(self, tasks: Iterable[Task], until: float) -> None:
        """Prepare these tasks ahead of time, as far as there is room for them all and until `until`."""
        for task in tasks:
            if time.monotonic() > until:
                return
            try:
                self._tasks.prepare(task)
            except DeviceLost:
                raise
            except KernelBlasterError as error:
                print(f"{task.name}: {error}", flush=True)
                return

    def compared(self, pair: Pair, task: Task, old: Binary | Outcome, new: Binary | Outcome) -> Compared:
        """Verify the old source, verify the new one and time it against the old."""
        prepared = self._prepared(task)
        draw = SecretDraw(random.SystemRandom().getrandbits(60))  # the same sizes and values for both
        old_said = self._verdict(prepared, old, draw)
        if not isinstance(new, Binary):
            return Compared(pair, old_said, _said(new), None)
        if not isinstance(old, Binary) or old_said != RIGHT:
            return Compared(pair, old_said, self._verdict(prepared, new, draw), None)
        self._clock.forget()  # which knows the baseline's time by the task's name
        assert isinstance(prepared.baseline, ModuleBaseline)
        before = OldKernel(task, self._device, old.path, prepared.baseline)
        judged = self._under_test(replace(prepared, baseline=before), new, draw).verify_and_time()
        new_said = RIGHT if judged.timing is not None else _said(judged.outcome)
        return Compared(pair, old_said, new_said, judged.timing)

    def close(self) -> None:
        self._clock.forget()
        self._tasks.close()
        gc.collect()
        if self._device.torch_device.type == "cuda":
            torch.cuda.empty_cache()

    def _prepared(self, task: Task) -> Prepared:
        try:
            return self._tasks.prepare(task)
        except KernelBlasterError as error:
            if isinstance(error, DeviceLost):
                raise
            self.close()  # perhaps there was no room left beside the others
            return self._tasks.prepare(task)

    def _verdict(self, prepared: Prepared, binary: Binary | Outcome, draw: SecretDraw) -> str:
        if not isinstance(binary, Binary):
            return _said(binary)
        outcome = self._under_test(prepared, binary, draw).verify().outcome
        return RIGHT if isinstance(outcome, Verification) else _said(outcome)

    def _under_test(self, prepared: Prepared, binary: Binary, draw: SecretDraw) -> CandidateUnderTest:
        return CandidateUnderTest(self._device, self._clock, prepared, binary, draw)


def _said(outcome: Any) -> str:
    """A verdict in a cell of a table: its kind and why."""
    why = f"{getattr(outcome, 'reason', '')} {getattr(outcome, 'evidence', '')}"
    return f"{outcome.kind} {' '.join(why.split())[:160]}".strip().replace("|", "/")


def pairs_in(tasks: dict[str, Any], names: Sequence[str]) -> list[Pair]:
    """All pairs, the first of each task before the second ones."""
    found = [
        Pair(name, place, _techniques(pair), pair["old"], pair["new"])
        for name, told in tasks.items()
        if not names or any(wanted in name for wanted in names)
        for place, pair in enumerate(told.get("pairs", []), 1)
    ]
    return sorted(found, key=lambda pair: pair.place)


def _techniques(pair: dict[str, Any]) -> str:
    """Which techniques of the path applied, and where now others do."""
    old, new = (", ".join(pair[side]) or "none" for side in ("old_applied", "new_applied"))
    return new if old == new else f"{new} (before: {old})"


def judged_pairs(
    pairs: Sequence[Pair], tasks: dict[str, Any], device: Device, until: float
) -> Iterator[Compared]:
    """Each pair after it was judged; none is begun after `until` (a time.monotonic)."""
    with closing(Comparer(device)) as comparer, compilers() as pool:
        known = {pair.task: Task.model_validate(tasks[pair.task]["task"]) for pair in pairs}

        def started(pair: Pair, source: str) -> Future[Binary | Outcome]:
            return pool.submit(comparer.compile, known[pair.task], Candidate(source=source))

        waiting = [(pair, started(pair, pair.old), started(pair, pair.new)) for pair in pairs]
        try:
            comparer.prepare(
                known.values(), until
            )  # while compilers are at work, which timing is not to share
            for pair, old, new in waiting:
                if time.monotonic() > until:
                    return
                try:
                    yield comparer.compared(pair, known[pair.task], old.result(), new.result())
                except DeviceLost:
                    raise
                except Exception as error:  # whatever it is: time on a GPU is not lost for one pair
                    said = f"{type(error).__name__} {error}".partition("\n")[0][:160].replace("|", "/")
                    yield Compared(pair, "", f"not judged: {said}", None)
        finally:
            for _, *both in waiting:
                for future in both:
                    future.cancel()


def row(one: Compared) -> str:
    cells = [one.pair.task.removeprefix("core/"), str(one.pair.place)]
    if one.timing is not None:
        timing = one.timing
        speedup: Speedup = timing.speedup
        cells += [f"{timing.baseline_us:.1f}", f"{timing.candidate_us:.1f}", f"{one.ratio:.3f}"]
        cells += [f"{1 / speedup.high:.3f} to {1 / speedup.low:.3f}"]
    else:
        cells += [""] * 4
    return "| " + " | ".join([*cells, one.old, one.new, one.pair.techniques]) + " |"


def mean(ratios: Sequence[float]) -> str:
    """The geometric mean, to three places."""
    return f"{math.exp(math.fsum(map(math.log, ratios)) / len(ratios)):.3f}" if ratios else "none"


def page(told: dict[str, Any], pairs: Sequence[Pair], done: Sequence[Compared], device: str) -> list[str]:
    """All lines of the page, about what was done so far."""
    tasks = told["tasks"]
    same = [name for name, one in tasks.items() if not one.get("pairs") and "incomparable" not in one]
    lines = [
        f"# The expert's kernels before ({told['before']}) and now ({told['after']}), {device}",
        "",
        f"{len(tasks)} tasks were covered before. Of {len(same)} every path gives the same program now. "
        f"{len(pairs)} pairs of sources differ and are to be timed: {len(done)} are done, "
        f"{len(pairs) - len(done)} are not.",
        "",
        *summary(done, len(same)),
        "",
        *HEAD,
        *(row(one) for one in sorted(done, key=lambda one: (one.pair.task, one.pair.place))),
    ]
    lines += ["", "The same program on every path: " + ", ".join(same) + "."] if same else []
    for name, one in tasks.items():
        if "incomparable" in one:
            lines += ["", f"Not compared: {name}: {one['incomparable']}."]
    return lines


def summary(done: Sequence[Compared], same: int) -> list[str]:
    """The means, the worst ratios and the verdicts; `same` tasks were not timed."""
    timed = [(one, one.timing, one.ratio) for one in done if one.timing and one.ratio]
    best: dict[str, tuple[float, float]] = {}  # task -> least old and new time over its pairs
    for one, timing, _ in timed:
        old, new = best.get(one.pair.task, (math.inf, math.inf))
        best[one.pair.task] = min(old, timing.baseline_us), min(new, timing.candidate_us)
    ratios = [ratio for *_, ratio in timed]
    firsts = [ratio for one, _, ratio in timed if one.pair.place == 1]
    bests = [new / old for old, new in best.values()]
    above = sorted((one for one in timed if one[2] > WORST), key=lambda one: -one[2])
    surely = sum(1 / timing.speedup.high > WORST for _, timing, _ in above)
    broken = sum(one.new != RIGHT and one.old == RIGHT for one in done)
    mended = sum(one.new == RIGHT and one.old != RIGHT for one in done)
    neither = sum(RIGHT not in (one.old, one.new) for one in done)
    return [
        f"- New over old time, geometric mean of {len(timed)} pairs: **{mean(ratios)}**; of the first pair "
        f"of each of {len(firsts)} tasks: {mean(firsts)}; with 1 for each of the {same} tasks that are the "
        f"same: {mean([*firsts, *[1.0] * same])}.",
        f"- Worst: {most(ratios)}. Above {WORST}: {len(above)} pairs, {surely} of them with the whole "
        "interval.",
        f"- Fastest of a task's pairs, new over old: {mean(bests)} in the mean, {most(bests)} at worst.",
        f"- Right before and not now: {broken}. Wrong before and right now: {mended}. Right in neither: "
        f"{neither}.",
        *(
            f"- {one.pair.task}, pair {one.pair.place}: {ratio:.3f}; the fastest of its pairs takes "
            f"{best[one.pair.task][1]:.1f} us now, {best[one.pair.task][0]:.1f} us before."
            for one, _, ratio in above
        ),
    ]


def most(ratios: Sequence[float]) -> str:
    return f"{max(ratios):.3f}" if ratios else "none"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("tasks", nargs="*", help="only those whose name contains one of these")
    parser.add_argument("--seconds", type=float, default=540.0, help="begin nothing new after that")
    parser.add_argument("--device", choices=("cuda", "emulated"), default="cuda")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    until = time.monotonic() + options.seconds
    told = json.loads(options.file.read_text())
    pairs = pairs_in(told["tasks"], options.tasks)
    done: list[Compared] = []
    with closing(open_device(options.device)) as device:
        print(f"{len(pairs)} pairs on {device.name}", *HEAD, sep="\n", flush=True)
        for one in judged_pairs(pairs, told["tasks"], device, until):
            done.append(one)
            print(row(one), flush=True)
            if options.out:
                text = "\n".join(page(told, pairs, done, device.name)) + "\n"
                whole = options.out.with_suffix(".new")
                whole.write_text(text)
                whole.replace(options.out)
        print("\n".join(page(told, pairs, done, device.name)))


if __name__ == "__main__":
    main()
