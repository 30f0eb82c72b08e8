"""Measures on a GPU a candidate's speedup over the baseline (PyTorch, or the user's kernel).

Candidate and baseline are timed in pairs on fresh values, each with a cold cache, and every timed output is
checked. Three clocks must agree: events around the whole call, events around each launch, and the wall clock,
which is read outside the candidate's process too.
"""

import random
import statistics
import time

import numpy as np
import torch

from kernelblaster.devices.device import (
    Argument,
    CandidateDied,
    CandidateHung,
    Device,
    Runner,
    TimeReport,
    synchronize,
)
from kernelblaster.devices.specs import GpuSpec
from kernelblaster.judge.baseline import Baseline
from kernelblaster.judge.layout import Layout, float64_views, lay_out
from kernelblaster.judge.memory_check import MemoryCheck
from kernelblaster.judge.precision import FEW, Comparison, both, compare, exceeded, larger, plainly_apart
from kernelblaster.judge.stop import Failure, Leash, Stop, failure, stop_on_report
from kernelblaster.records import (
    Accepted,
    Floor,
    Inconclusive,
    Incorrect,
    Outcome,
    Rejected,
    Slower,
    Task,
    Timing,
)
from kernelblaster.records.evaluation import Errors
from kernelblaster.records.outcome import Speedup
from kernelblaster.tasks.open_choices import OpenChoices, settled
from kernelblaster.tasks.values import fill, perturb

CONFIDENCE = 0.99
RESOLUTION = 0.01  # relative differences below this are measurement error: see docs/judge.md
CHECKPOINTS = (4, 8, 12, 16, 24, 32, 48, 64, 96, 128)
FEWEST = 8  # samples that a verdict needs, unless the candidate is hopelessly slow
HOPELESS = 0.25  # speedup below which sampling stops at once
ENOUGH = 0.005  # half-width of the interval, in log speedup, at which sampling stops
WARM_UP = 3
LAYOUTS = 4  # sets of addresses from which each timed call draws one
LONG_US = 20_000.0  # one call that takes so long is enough to warm up
HIDDEN_US = 75.0  # wall time outside the timed work that is allowed; about 15 is usual
EARLY_US = 5.0  # by which clocks may differ
FLUSH_SHARE = 0.25  # the cache flush may be faster than usual by this share
LAUNCH_US = 8.0  # to issue one launch, where the host is what limits a batch
BATCH_US, MOST_CALLS = 2000.0, 100
UNEVEN = 1.25  # most that the mean of all times may be, in medians
HOST_US = 200.0  # by which host code may take longer than its kernels
DRIFT = 0.03  # largest relative change of the GPU's clock rate during a measurement
BUDGET_S = 4.0
RESAMPLES = 2000
EXACT_ROUNDS, EXACT_SHARE = 2, 0.3  # rounds whose outputs are compared with the float64 reference
FULL_CHECKS = 0.15  # share of timed outputs that are compared by every measure, not only by two


class ClocksDisagree(Stop):
    """Raised if the clocks of one measurement contradict each other; `evidence` has their times in words. The
    measurement is repeated once; if the clocks disagree again, the outcome is Rejected."""

    def __init__(self, evidence: str) -> None:
        super().__init__(Rejected(reason="clocks-disagree", evidence=evidence))


class ClockChanged(Exception):
    """The GPU's clock rate changed by more than 3 % (DRIFT) during a measurement. The measurement is then
    repeated once."""


class Timer:
    """Times one verified candidate for `task` on `device`, where it is loaded in `runner`, against the
    baseline (PyTorch, or the user's kernel) at the primary workload, the sizes that are timed. `allowed`
    gives for each output by name (error bound, the baseline's own errors); timed outputs are checked by
    these. `leash` limits the time of all of the candidate's calls together, those of earlier stages included.
    `seed` determines all random choices; `keep_samples` stores every pair of times."""

    def __init__(
        self,
        device: Device,
        task: Task,
        baseline: Baseline,
        runner: Runner,
        seed: int,
        allowed: dict[str, tuple[Errors, Errors | None]],
        leash: Leash,
        *,
        keep_samples: bool = False,
    ) -> None:
        self._device = device
        self._task = task
        self._baseline = baseline = baseline.at(task.primary)
        self._runner = runner
        self._leash = leash
        self._rng = random.Random(seed)
        self._allowed = allowed
        self._keep_samples = keep_samples
        self._exact_rounds = EXACT_ROUNDS
        self._key = self._rng.getrandbits(62)
        layouts = [lay_out(device.arena(), task.signature, task.primary, self._rng) for _ in range(LAYOUTS)]
        self._layouts = [(one, one.arguments(task.signature, baseline.scalars)) for one in layouts]
        self._parameters = [p.to(device.torch_device) for p in baseline.parameters]

    def time(self, floor: Floor) -> Timing | Failure:
        """Times the candidate; returns the timing, or the outcome if it failed. `floor` is the least work
        that any kernel for the task needs: a candidate whose time is too short for the GPU to do that work is
        rejected. If the clocks that measure the time (CUDA events and wall clocks) disagree, which a busy
        host can cause, the measurement is made a second time; a candidate is rejected if they disagree again.
        """
        try:
            try:
                return self._time(floor)
            except (ClocksDisagree, ClockChanged):
                return self._time(floor, again=True)
        except Stop as stop:
            return stop.outcome
        except (CandidateDied, CandidateHung) as error:
            return failure(error, "time", "while being timed")

    def _time(self, floor: Floor, *, again: bool = False) -> Timing:
        """One whole measurement: warm up, sample until the confidence interval is narrow or BUDGET_S seconds
        have passed, and check the clocks and the time against `floor`, the least work of the task. `again`: a
        change of the GPU's clock rate is tolerated. Raises Stop, or ClockChanged."""
        start = time.perf_counter()
        end = start + BUDGET_S
        self._runner.record([arguments for _, arguments in self._layouts])
        self._device.settle()
        for _ in range(WARM_UP):
            if self._round()[1].event_us > LONG_US:
                break
        clock_mhz = self._device.clock_mhz()
        reports: list[TimeReport] = []
        baseline_us: list[float] = []
        speedup = None
        for checkpoint in CHECKPOINTS:
            while len(reports) < checkpoint and (len(reports) < FEWEST or time.perf_counter() < end):
                duration_us, report = self._round()
                baseline_us.append(duration_us)
                reports.append(report)
            speedup = interval(baseline_us, [r.event_us for r in reports], self._rng.getrandbits(32))
            if speedup.high < HOPELESS:
                break
            if checkpoint < FEWEST:
                continue
            width = speedup.high / speedup.low
            if width < 1 + 2 * ENOUGH or time.perf_counter() > end:
                break
            if speedup.low > 1.5 or speedup.high < 0.67:
                break
        assert speedup is not None
        candidate_us = statistics.median(r.event_us for r in reports)
        self._even(reports, candidate_us)
        activity_us = self._agreement(reports, candidate_us)
        if not again:
            self._steady(clock_mhz)
        self._possible(floor, candidate_us)
        return Timing(
            baseline=self._baseline.title,
            baseline_us=statistics.median(baseline_us),
            candidate_us=candidate_us,
            speedup=speedup,
            samples=len(reports),
            candidate_wall_us=statistics.median(r.event_us + r.wall_us - r.span_us for r in reports),
            candidate_activity_us=activity_us,
            floor_us=floor_us(self._device.spec, self._task, floor),
            modelled=self._device.modelled,
            seconds=time.perf_counter() - start,
            pairs_us=tuple(zip(baseline_us, (r.event_us for r in reports), strict=True))
            if self._keep_samples
            else (),
        )

    def _fill(self, seed: int, inputs: list[torch.Tensor], parameters: list[torch.Tensor]) -> None:
        """Write fresh inputs and parameters to these tensors, drawn as in verification, so that no result can
        be reused and nothing shows that the call is timed. Float64 tensors get the same values as float32
        ones."""
        for position, target in enumerate(inputs):
            fill(target, self._baseline.pools[position], "written", self._task.primary, seed + position)
        for position, (target, original) in enumerate(zip(parameters, self._parameters, strict=True)):
            perturb(target, original, seed + 1000 + position)

    def _round(self) -> tuple[float, TimeReport]:
        """Time baseline and candidate once each, on the same fresh values and in random order, and compare
        their outputs. Returns the baseline's time in us and the candidate's report."""
        signature = self._task.signature
        layout, arguments = self._rng.choice(self._layouts)
        seed = self._rng.getrandbits(48)
        views = [layout.view(t) for t in signature.read_tensors]
        self._fill(seed, views[: len(signature.input_tensors)], views[len(signature.input_tensors) :])
        self._baseline.adopt(layout)
        exactly = self._exact_rounds > 0 and self._rng.random() < EXACT_SHARE
        if self._rng.random() < 0.5:
            baseline_us, right = self._baseline.timed(layout)
            report = self._sample(layout, arguments)
            mine = [layout.view(t).clone() if exactly else layout.view(t) for t in signature.outputs]
        else:
            report = self._sample(layout, arguments)
            mine = [layout.view(t).clone() for t in signature.outputs]
            baseline_us, right = self._baseline.timed(layout)
        self._check_outputs(layout, mine, right)
        if exactly:
            self._exact_rounds -= 1
            self._check_exactly(seed, mine, right)
        return baseline_us, report

    def _sample(self, layout: Layout, arguments: tuple[Argument, ...]) -> TimeReport:
        """One timed call of the candidate, with its outputs filled with poison before and all memory checked
        after. Raises Stop if it failed, wrote outside its outputs, or did no work."""
        signature = self._task.signature
        for tensor in signature.outputs:
            layout.raw(tensor).fill_(0xFF)
        layout.set_guards()
        check = MemoryCheck(layout, signature, self._key, protected=self._device.protects_inputs)
        synchronize(self._device.torch_device)
        with self._leash.during("time"):
            report = self._runner.time(arguments)
        stop_on_report(report.call, "while being timed")
        check.stop_if_touched()
        if not report.call.work:
            raise Stop(Rejected(reason="no-work", evidence="a timed call put nothing on the device"))
        return report

    def _check_outputs(self, layout: Layout, mine: list[torch.Tensor], right: list[torch.Tensor]) -> None:
        """Compare the candidate's outputs (`mine`) with the baseline's (`right`), both on the values in
        `layout`: they may be apart by the sum of the error bounds of both. Raises Stop if they are further
        apart."""
        integers = [n for n, output in enumerate(right) if not output.is_floating_point()]
        module = self._task.kind == "module"  # an own kernel leaves nothing open
        if module and not all(torch.equal(mine[n], right[n]) for n in integers):
            mine = [one.clone() for one in mine]  # before the layout's memory is used again
            with OpenChoices() as chosen:
                again = self._baseline.outputs(layout)
            choices = chosen.of(again)
            mine = [settled(one, choice) for one, choice in zip(mine, choices, strict=True)]
            right = [settled(one, choice) for one, choice in zip(right, choices, strict=True)]
        for tensor, got, expected in zip(self._task.signature.outputs, mine, right, strict=True):
            limits = both(*self._allowed[tensor.name], few=got.numel() <= FEW)
            if not plainly_apart(got, expected, limits) and self._rng.random() > FULL_CHECKS:
                continue
            comparison = compare(got, expected)
            too_large = exceeded(comparison.errors, limits) if comparison.errors else "not finite"
            if too_large:
                raise Stop(_wrong(tensor.name, comparison, too_large))

    def _check_exactly(self, seed: int, mine: list[torch.Tensor], right: list[torch.Tensor]) -> None:
        """Compare the candidate's outputs (`mine`) with the float64 reference on the values of `seed`. Errors
        may be as large as verification allows, or as the baseline's own (in its outputs `right`) if these are
        larger. Overwrites the arena, the memory that candidates work on. Raises Stop if errors are larger;
        does nothing if there is no float64 reference."""
        signature = self._task.signature
        tensors, count = list(signature.read_tensors), len(signature.input_tensors)
        views = float64_views(self._device.arena(), tensors, self._task.primary)
        self._fill(seed, views[:count], views[count:])
        with OpenChoices() as chosen:
            truth = self._baseline.wide(views[:count], views[count:])
        if truth is None:
            return
        choices = chosen.of(truth)
        mine = [settled(one, choice) for one, choice in zip(mine, choices, strict=True)]
        right = [settled(one, choice) for one, choice in zip(right, choices, strict=True)]
        for tensor, got, theirs, exact in zip(signature.outputs, mine, right, truth, strict=True):
            comparison = compare(got, exact, theirs)
            own = compare(theirs, exact).errors
            if own is None or (tensor.floating and got.numel() <= FEW):
                continue  # a single draw of few elements decides nothing
            allowed = larger(self._allowed[tensor.name][0], own)
            too_large = exceeded(comparison.errors, allowed) if comparison.errors else "not finite"
            if too_large:
                raise Stop(_wrong(tensor.name, comparison, too_large))

    def _even(self, reports: list[TimeReport], candidate_us: float) -> None:
        """Raise ClocksDisagree if the mean time of the calls is far above their median `candidate_us`, Stop
        if host code takes much longer than the kernels."""
        mean_us = statistics.fmean(r.event_us for r in reports)
        if mean_us > UNEVEN * candidate_us + EARLY_US:
            raise ClocksDisagree(
                f"calls take {mean_us:.0f} us on average but {candidate_us:.0f} us in the median: some do "
                "far more than others"
            )
        host_us = self._runner.host_us
        if host_us > HOST_US + candidate_us:
            raise Stop(
                Rejected(
                    reason="host-time",
                    evidence=f"host code takes {host_us:.0f} us for each call, kernels {candidate_us:.0f} us",
                )
            )

    def _agreement(self, reports: list[TimeReport], candidate_us: float) -> float:
        """Compare all clocks of the reports. Returns the sum of the launches' own times in us. Raises
        ClocksDisagree where the wall clock or the launches' own times show work that the events around the
        call missed."""
        hidden_us = statistics.median(r.wall_us - r.span_us for r in reports)
        if hidden_us > 0.1 * candidate_us + HIDDEN_US:
            raise ClocksDisagree(
                f"{hidden_us:.0f} us passed on the wall outside the timed work of "
                f"{candidate_us:.0f} us: something ran where the events could not see it"
            )
        if hidden_us < -EARLY_US or any(r.owner_us < r.wall_us - EARLY_US for r in reports):
            raise ClocksDisagree("less time passed on the wall than between the events")
        flush_us = statistics.median(r.flush_us for r in reports)
        before_us = statistics.median(r.span_us - r.event_us for r in reports) - flush_us
        if before_us > 0.1 * candidate_us + 50:
            raise ClocksDisagree(
                f"the timed work seems to begin {before_us:.0f} us after the cache was flushed"
            )
        if before_us < -FLUSH_SHARE * flush_us:
            raise ClocksDisagree(
                f"flushing the cache took {-before_us:.0f} us less than the usual {flush_us:.0f} us: it was "
                "not read through"
            )
        # Every sample has values of its own, so hidden work would be hidden in every one; a busy host
        # delays most of them.
        outside_us = min(r.owner_us - r.span_us for r in reports)
        if outside_us > 0.25 * candidate_us + 2000:
            raise ClocksDisagree(f"the judge's own clock saw {outside_us:.0f} us more than was reported")
        account = self._runner.call(self._layouts[0][1], scratch_poison=-1, accounting=True)
        activity_us = sum(work.duration_us or 0.0 for work in account.work)
        if activity_us > 2 * candidate_us + 20 * len(account.work) + 50:
            raise ClocksDisagree(
                f"the launches take {activity_us:.0f} us by themselves, but "
                f"{candidate_us:.0f} us when the whole call was timed"
            )
        self._batch(candidate_us, len(account.work))
        return activity_us

    def _batch(self, candidate_us: float, launches: int) -> None:
        """Time calls without a pause, by the wall clock: since caches are warm, each may take no longer than
        alone (`candidate_us`), plus the time to issue its `launches`. Raises ClocksDisagree."""
        count = max(2, min(MOST_CALLS, int(BATCH_US / max(candidate_us, 1.0))))
        batch = self._runner.again(self._layouts[0][1], count)
        expected_us = count * (1.5 * candidate_us + LAUNCH_US * launches) + HIDDEN_US
        if max(batch.wall_us, batch.event_us) > expected_us:
            raise ClocksDisagree(
                f"{count} calls in a row take {batch.wall_us:.0f} us, one alone {candidate_us:.0f} us"
            )
        if batch.wall_us < batch.event_us - EARLY_US:
            raise ClocksDisagree("less time passed on the wall than between the events of a batch")

    def _steady(self, before_mhz: float | None) -> None:
        """Raise ClockChanged if the GPU's clock rate differs from `before_mhz` by more than DRIFT; an unknown
        rate (None) passes."""
        after_mhz = self._device.clock_mhz()
        if before_mhz and after_mhz and abs(after_mhz / before_mhz - 1) > DRIFT:
            raise ClockChanged(f"the GPU's clock went from {before_mhz:.0f} to {after_mhz:.0f} MHz meanwhile")

    def _possible(self, floor: Floor, candidate_us: float) -> None:
        """Raise Stop (Rejected) if `candidate_us` is below the time that reading the bytes which any kernel
        must read (`floor.certain_bytes`) takes at the GPU's peak bandwidth."""
        least_us = self._device.spec.impossible_us(floor.certain_bytes)
        if candidate_us < least_us:
            raise Stop(
                Rejected(
                    reason="below-the-floor",
                    evidence=f"{candidate_us:.1f} us, but moving {floor.certain_bytes / 1e6:.0f} MB takes "
                    f"{least_us:.1f} us on {self._device.spec.title} at its peak",
                )
            )


def _wrong(output: str, comparison: Comparison, too_large: str) -> Incorrect:
    """The outcome for a timed output that is wrong; `too_large` names the error measure that exceeds its
    bound."""
    return Incorrect(
        reason="a timed output is wrong",
        evidence=f"{output}, element {comparison.index}: expected {comparison.expected:.9g}, "
        f"got {comparison.got:.9g} ({too_large}); earlier calls were right",
    )


def floor_rate(spec: GpuSpec, task: Task, floor: Floor) -> tuple[float, str]:
    """Returns (TFLOPS, name of the rate in words): the rate of the GPU `spec` at which the operations in
    `floor` count for the roofline floor of `task`. For 16-bit tasks, it is the rate of tensor cores. For
    float32 tasks, it is that of TF32 if PyTorch itself rounds operands to TF32. If it does not, it is the
    faster of two: FP32 units, or tensor cores, where each float32 product is made of three FP16 products.
    float64 counts at the rate of FP32."""
    if task.dtype in ("float16", "bfloat16"):
        return spec.fp16_tflops, f"{task.dtype} on tensor cores"
    if task.dtype != "float64" and floor.rounded != "none":
        return spec.tf32_tflops, "TF32 on tensor cores"
    if task.dtype != "float64" and spec.split_tflops > spec.fp32_tflops:
        return spec.split_tflops, "three FP16 products on tensor cores for one in float32"
    return spec.fp32_tflops, "FP32"


def floor_us(spec: GpuSpec, task: Task, floor: Floor) -> float:
    """Returns the roofline floor of `task` in us: the least time in which the GPU `spec` can move the task's
    bytes at its bandwidth and do its operations at the rate that `floor_rate` gives. `floor` has these bytes
    and operations."""
    return spec.floor_us(floor.bytes, floor.operations, floor_rate(spec, task, floor)[0])


def interval(baseline_us: list[float], candidate_us: list[float], seed: int) -> Speedup:
    """Returns the median of paired speedups (baseline over candidate) with its 99 % bootstrap confidence
    interval. The two lists are in us and of equal length, one entry for each pair; `seed` is for the
    resampling."""
    ratios = np.sort(np.log(baseline_us) - np.log(candidate_us))
    medians = _resampled_medians(ratios, np.random.default_rng(seed))
    tail = (1 - CONFIDENCE) / 2
    low, high = np.exp(np.quantile(medians, (tail, 1 - tail)))
    middle = np.exp(np.median(ratios))
    return Speedup(estimate=float(middle), low=float(low), high=float(high), confidence=CONFIDENCE)


def _resampled_medians(values: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """The medians of RESAMPLES bootstrap resamples of the sorted `values`. Only what decides a median is
    drawn: of n uniform numbers in [0, 1), the k-th smallest has a Beta distribution, and the next one is the
    least of n - k numbers above it. Number u picks the value of rank floor(n * u)."""
    count = len(values)
    below = (count + 1) // 2
    lower = generator.beta(below, count - below + 1, RESAMPLES)
    upper = lower
    if count % 2 == 0:
        upper = lower + (1 - lower) * (1 - generator.random(RESAMPLES) ** (1 / (count - below)))
    ranks = [np.minimum((count * one).astype(int), count - 1) for one in (lower, upper)]
    medians: np.ndarray = (values[ranks[0]] + values[ranks[1]]) / 2
    return medians


def conclude(speedup: Speedup) -> Outcome:
    """Returns the outcome of a correct candidate with this speedup: Accepted if the whole confidence interval
    of its speedup lies above 1.01, Slower if it lies below 1 / 1.01, else Inconclusive. Differences below 1 %
    (RESOLUTION) are not resolved by the timer."""
    if speedup.low > 1 + RESOLUTION:
        return Accepted(speedup=speedup)
    if speedup.high < 1 / (1 + RESOLUTION):
        return Slower(speedup=speedup)
    return Inconclusive(speedup=speedup)
