"""One call of a candidate at a large workload on the PTX machine (the emulator), and the comparison of what
it wrote with the reference.

Most of the inputs hold values like the task file's own. Some slabs (slices of the workload, boxes.py) hold
another kind of values each. If the call is a single launch whose blocks are independent, only some of its
blocks are run, drawn in secret, and only the elements that they wrote are compared. How many elements they
wrote shows whether all blocks together would write the whole output: a tenth of the blocks should write a
tenth of it.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import cycle

import torch

from kernelblaster.devices.device import Arena, Argument, CallReport, Device
from kernelblaster.devices.emulated import EmulatedRunner
from kernelblaster.judge.baseline import Baseline, KernelBaseline
from kernelblaster.judge.boxes import Box, places_of, written_box
from kernelblaster.judge.case import Case
from kernelblaster.judge.compare_outputs import OUTPUT_POISONS, OutputComparer
from kernelblaster.judge.doubts import Doubt, above_bound
from kernelblaster.judge.large_values import fill_large
from kernelblaster.judge.layout import Layout, lay_out, slot_bytes
from kernelblaster.judge.operand_rounding import OperandRounding
from kernelblaster.judge.samples import FAR, share
from kernelblaster.judge.stop import Stop, stop_on_report
from kernelblaster.judge.truth import Truth
from kernelblaster.ptx.machine import ACCESS_WORK, Draws
from kernelblaster.records import Incorrect, Task, Tensor, Workload
from kernelblaster.tasks.independence import put, taken
from kernelblaster.tasks.values import fill

PIECE = 1 << 24
PATCHED = (
    1 << 20
)  # elements of an input that have another kind of values than the rest, where no size is independent
PICKED = 6  # random written elements whose neighbourhood is compared, beside the first and the last one
SLAB_SEEDS = 1000  # between the seeds of slabs whose values are drawn apart; inputs have one each
MOST_MOVED = 1 << 25  # elements read: with more, bounds do without the effect of a rounding of the inputs


@dataclass(frozen=True)
class LargeTask:
    """What all large calls (at the sizes that are timed, on the emulator) of one task need, prepared once.
    `baseline` is the reference, built for the primary workload (the timed sizes). `independent` names the
    sizes along which outputs do not depend on each other (like a batch). `rounding` says how the baseline
    rounds operands of products, as to TF32."""

    task: Task
    baseline: Baseline
    independent: tuple[str, ...]
    rounding: OperandRounding


@dataclass(frozen=True)
class CallCoverage:
    """How much of a large call was really run and written, to decide whether the call proves enough. `share`
    is the fraction (0 to 1) of the thread blocks that were run: less than 1 only for a call with a single
    launch. `covered` is the fraction (0 to 1) of an output's elements that was written; of several outputs,
    the smallest. `places` are some of the written elements, each as its index along every independent size
    (one along which outputs do not depend on each other); empty if all blocks were run. `work` is how much
    the emulator executed in the call: the number of warp instructions, where an access to memory counts as 12
    more (ACCESS_WORK)."""

    share: float
    covered: float
    places: tuple[dict[str, int], ...]
    work: int


class TooMuchWorkError(Exception):
    """Raised if a call was ended because it took more work than the emulator was allowed to do
    (`Draws.most_work`); the message names the workload."""


@dataclass
class _Slab:
    """A slab, a piece of the workload that is compared by itself: `box` says which indices it covers, `case`
    which kind of values it has, `values` are its inputs and parameters, and `outputs` what the candidate
    wrote there. `seed` determines the values. `mixed`: its rows are from several slabs, with different kinds
    of values."""

    box: Box
    case: Case
    values: list[torch.Tensor]
    outputs: list[torch.Tensor]
    seed: int
    mixed: bool = False


class LargeCall:
    """One call of a candidate at `workload`, which is made in three steps: `fill`, then `run`, then
    `compare`. `known` has the task, its reference and its independent sizes. `runner` has the candidate
    loaded; it shares `arena`, the memory in which the workload's tensors lie. The reference is computed on
    `device`, for the compared parts (slabs) only. `rng` draws values and addresses. With `like`, an earlier
    call at the same workload, tensors lie at the same positions of their slots as there, but at other
    addresses.

    After `compare`, the attribute `doubts` lists errors above the bound in outputs of so few elements that
    they may be due to chance. Methods raise Stop if the candidate is wrong, CandidateDied or CandidateHung if
    its process ends.
    """

    def __init__(
        self,
        device: Device,
        known: LargeTask,
        runner: EmulatedRunner,
        arena: Arena,
        workload: Workload,
        rng: random.Random,
        like: "LargeCall | None" = None,
    ) -> None:
        """With `like`, an earlier call at the same workload, tensors lie at the same places of their slots as
        in that call, at other addresses: a candidate that writes where a tensor lay then is found even if it
        does so only where the memory is the same."""
        self._device = device
        self._known = known
        self._runner = runner
        self._arena = arena
        self._workload = workload
        self._rng = rng
        self._signature = known.task.signature
        self._seed = rng.getrandbits(48)
        place = like._layout if like is not None else None
        self._layout: Layout = lay_out(arena, self._signature, workload, rng, like=place)
        self.doubts: list[Doubt] = []
        self._slabs: list[_Slab] = []
        self._scalars: tuple[object, ...] | None = None
        self._poison = rng.choice(OUTPUT_POISONS)

    def fill(self, slabs: Sequence[tuple[Box, Case]], *, apart: bool = False) -> None:
        """Writes values to all inputs and parameters. `slabs` are parts of the workload (boxes), each with
        the verification case that names its kind of values; everything else gets values like the task file's
        own. Scalars and parameters must be the same in all cases. With `apart`, slabs of the same kind get
        different values; no kind may then contain NaN or infinity.

        If the workload is not cut, `slabs` has a single box, the whole workload. The case's kind of values
        then goes to some rows of each input only; the other rows get values like the task file's own.
        """
        pools = self._known.baseline.at(self._workload).pools
        self._scalars = slabs[0][1].scalars
        for position, tensor in enumerate(self._signature.input_tensors):
            fill_large(self._layout.view(tensor), pools[position], self._workload, self._seed + 7 * position)
        truth = Truth(self._known.task, self._known.baseline, self._arena, self._rng)
        if not slabs[0][0].chosen:
            self._patch(truth, *slabs[0])
            return
        for number, (box, case) in enumerate(slabs):
            seed = self._seed + SLAB_SEEDS * number if apart else self._seed
            values = self._values(truth, box, case, seed)
            self._slabs.append(_Slab(box, case, values, [], seed))
            for tensor, value in zip(self._signature.read_tensors, values, strict=True):
                if len(self._slabs) == 1 or box.split in tensor.dims:
                    put(self._layout.view(tensor), tensor.dims, box.chosen, value)

    def _patch(self, truth: Truth, whole: Box, case: Case) -> None:
        """Writes the values of `case` to the parameters and to some rows of every input, and has the whole
        workload compared as a single part (`whole`). `truth` fills the parameters."""
        pools, views = (
            self._known.baseline.at(self._workload).pools,
            [self._layout.view(tensor) for tensor in self._signature.read_tensors],
        )
        for position, view in enumerate(views[: len(pools)]):
            if case.arrangement(position) == "written" or not view.numel():
                continue
            rows = max(1, min(view.shape[0] // 4, PATCHED // view[0].numel()))
            start = self._rng.randrange(view.shape[0] - rows + 1)
            part = view[start : start + rows]
            fill(part, pools[position], case.arrangement(position), self._workload, self._seed + position)
        truth.fill_parameters(case, self._seed, views[len(pools) :])
        self._slabs.append(_Slab(whole, case, views, [], self._seed))

    def _values(self, truth: Truth, box: Box, case: Case, seed: int) -> list[torch.Tensor]:
        """Inputs and parameters of one slab (part of the workload) as its case says, determined by `seed`.
        Tensors that do not extend along `box.split` are shared with the first slab."""
        tensors, count = self._signature.read_tensors, len(self._signature.input_tensors)
        first = self._slabs[0].values if self._slabs else None
        values = [
            first[position]
            if first is not None and box.split not in tensor.dims
            else torch.empty(box.part.shape(tensor), dtype=getattr(torch, tensor.dtype))
            for position, tensor in enumerate(tensors)
        ]
        if first is None:
            truth.fill(case, seed, values[:count], values[count:])
            return values
        pools = self._known.baseline.at(case.workload).pools
        for position, tensor in enumerate(self._signature.input_tensors):
            if box.split in tensor.dims:
                kind = case.arrangement(position)
                fill(values[position], pools[position], kind, case.workload, seed + position)
        return values

    @property
    def launches(self) -> int:
        """How many kernels the candidate's host code launches in this call. The host code is only recorded to
        count them; no kernel is run."""
        return len(self._runner.recorded(self._arguments).launches)

    @property
    def _arguments(self) -> tuple[Argument, ...]:
        baseline = self._known.baseline.at(self._workload)
        with baseline.with_scalars(self._scalars):
            return self._layout.arguments(self._signature, baseline.scalars)

    def run(self, draws: Draws, *, kept: bool = False) -> CallCoverage:
        """Runs the call on the emulator, with the random choices and limits in `draws`. Returns how much was
        run and written. With `kept`, `__device__` variables keep the values that the call before left in
        them; otherwise they are reset to their initial ones. Raises TooMuchWorkError if the call takes more
        work than `draws.most_work`. Raises Stop if the call fails, or if all blocks ran and did not write
        every output element."""
        report = self._called(draws, kept)
        for slab in self._slabs:
            slab.outputs = [
                taken(self._layout.view(t), t.dims, slab.box.chosen) for t in self._signature.outputs
            ]
        coverage = self._written(report)
        if coverage.share < 1 or coverage.covered >= 1:
            return coverage
        self._stop_if_unwritten(draws, kept)
        return replace(coverage, covered=1.0)

    def _called(self, draws: Draws, kept: bool) -> CallReport:
        """The report of one call, before which all outputs are filled with the poison. Raises as `run`."""
        for tensor in self._signature.outputs:
            self._layout.raw(tensor).fill_(self._poison)
        self._runner.draw(draws, restored=not kept)
        poison = self._rng.randrange(256)
        report = self._runner.call(self._arguments, scratch_poison=poison, accounting=False, kept=kept)
        if self._runner.exhausted:
            raise TooMuchWorkError(self._where)
        stop_on_report(report, self._where)
        return report

    def _stop_if_unwritten(self, draws: Draws, kept: bool) -> None:
        """Raise Stop if a call of which all blocks ran left some output element unwritten. An element that
        still equals the poison (the byte pattern of outputs before the call) may be a right result that looks
        like it, such as -1 in whole numbers. So the call is made again with another poison: a right result is
        the same again, an unwritten element is not."""
        tensors, first = self._signature.outputs, self._poison
        doubtful = [~_differs(self._layout.view(tensor), first) for tensor in tensors]
        self._poison = self._rng.choice([one for one in OUTPUT_POISONS if one != first])
        self._called(draws, kept)
        for tensor, before in zip(tensors, doubtful, strict=True):
            count = int(torch.count_nonzero(before & _differs(self._layout.view(tensor), first)))
            if count:
                share = count / self._workload.elements(tensor)
                evidence = f"{self._where}: {share:.3%} of {tensor.name} was not written"
                raise Stop(Incorrect(reason="unwritten output", evidence=evidence))

    def neighbourhood(self, places: Sequence[dict[str, int]]) -> Box:
        """Returns the part of the workload (a box) that contains the output elements at `places` and their
        neighbours: along each independent size (one along which outputs do not depend on each other) a window
        of neighbouring indices at each place, as wide as in `drawn_box`. Each of `places` is one element: its
        index along every independent size, by the size's name, like {"batch": 7}."""
        return written_box(self._signature, self._workload, self._known.independent, list(places))

    def written_rows(self, box: Box) -> torch.Tensor:
        """Returns the rows that were written, as ascending indices along `split`, the size along which `box`
        can be cut. A row counts as written if every output has at least one written element in it, within the
        box's indices along its other sizes. The box's indices along `split` itself do not matter."""
        split = box.split
        assert split is not None, "only a box with a split has rows"
        within = {name: indices for name, indices in box.chosen.items() if name != split}
        written = torch.ones(self._workload.sizes[split], dtype=torch.bool)
        for tensor in self._signature.outputs:
            if split in tensor.dims:
                values = taken(self._layout.view(tensor), tensor.dims, within)
                mask = self._is_written(values).reshape(values.shape).movedim(tensor.dims.index(split), 0)
                written &= mask.reshape(len(written), -1).any(1).cpu()
        return written.nonzero().flatten()

    def compare(self, part: Box | None = None, *, all_written: bool, settling: Sequence[Doubt] = ()) -> int:
        """Compares the written outputs with the reference, in every slab (a part of the workload with its own
        kind of values) and, if given, in `part`, a box with values like the task file's own. With
        `all_written`, every element is compared; without it, as after a run of only some blocks, those that
        the candidate wrote. Returns how many output elements were compared. Raises Stop if they are wrong.

        Errors above the bound in an output of few elements may be due to chance: a Doubt is then appended to
        the attribute `doubts` instead. `settling` are the doubts of an earlier call, which this call is to
        decide. Its slabs must have the kinds of values of these doubts, in the same order (again from the
        first one if there are more slabs). The errors of each slab are added to the doubt with its kind of
        values. Afterwards, `doubts` lists the doubts in `settling` that are still undecided.
        """
        slabs = list(self._slabs)
        if part is not None:
            read = [taken(self._layout.view(t), t.dims, part.chosen) for t in self._signature.read_tensors]
            got = [taken(self._layout.view(t), t.dims, part.chosen) for t in self._signature.outputs]
            case = Case(part.part, "written", scalars=self._scalars)
            slabs.append(_Slab(part, case, read, got, self._seed, mixed=True))
        arena = self._arena
        if slabs[0].box.chosen:
            arena = self._device.arena(slot_bytes(self._signature, [slab.case.workload for slab in slabs]))
        baseline = self._known.baseline
        if isinstance(baseline, KernelBaseline):
            baseline.start()
        try:
            truth = Truth(self._known.task, baseline, arena, self._rng)
            turns = cycle(settling or (None,))
            count = sum(self._compare(truth, slab, all_written, next(turns)) for slab in slabs)
        finally:
            baseline.close()
        if settling:
            self.doubts = [doubt for doubt in settling if not self._settled(doubt)]
        return count

    def _settled(self, doubt: Doubt) -> bool:
        try:
            return doubt.settled()
        except Stop as stop:
            raise Stop(_within(stop.outcome, self._where)) from stop

    def _compare(self, truth: Truth, slab: _Slab, all_written: bool, doubt: Doubt | None) -> int:
        """Compares the candidate's outputs in one slab, a piece of the workload, with the reference, which
        `truth` computes; only elements that were written unless `all_written`. Returns how many elements were
        compared. Raises Stop if they are wrong. Adds the errors to `doubt`, if given."""
        case, layout = slab.case, self._layout
        if slab.box.chosen:
            layout = lay_out(self._device.arena(), self._signature, case.workload, self._rng)
            for tensor, value in zip(self._signature.read_tensors, slab.values, strict=True):
                layout.view(tensor).copy_(value)
        views = [layout.view(tensor) for tensor in self._signature.read_tensors]
        truth.adopt(slab.seed, views)
        parts = None if all_written else [self._is_written(o).nonzero().flatten() for o in slab.outputs]
        if parts is not None and not all(part.numel() for part in parts):
            return 0
        moved = sum(view.numel() for view in views) <= MOST_MOVED
        known = self._known
        comparer = OutputComparer(known.task, truth, known.rounding, conditioned=moved, mixed=slab.mixed)
        baseline = self._known.baseline.at(case.workload)
        with baseline.with_scalars(case.scalars):
            right = baseline.outputs(layout)
            samples = comparer.compare(case, slab.seed, right, [slab.outputs], parts)
        for sample in samples:
            if sample.few and share([sample]) < FAR:
                continue  # so few numbers decide only if they are far off
            try:
                comparer.judge(case, [sample])
            except Stop as stop:
                raise Stop(_within(stop.outcome, self._where)) from stop
        if doubt is not None:
            doubt.draws.append(samples)
        elif slab.box.chosen and not slab.mixed and not case.planted and any(map(above_bound, samples)):
            self.doubts.append(Doubt(case, comparer, [samples]))
        return sum(sample.count for sample in samples if not sample.excused)

    def _written(self, report: CallReport) -> CallCoverage:
        """How much of the launches was run, and how much of the outputs differs from the poison."""
        counts = [(work, work.counts) for work in report.work if work.counts is not None]
        blocks = sum(work.grid[0] * work.grid[1] * work.grid[2] for work, _ in counts)
        ran = sum(int(of["blocks"]) for _, of in counts)
        shares, places = [], []
        for tensor in self._signature.outputs:
            count, picked = self._count(tensor)
            shares.append(count / max(1, self._workload.elements(tensor)))
            if ran < blocks and picked is not None:
                places += places_of(tensor, self._workload, self._known.independent, picked)
        return CallCoverage(
            ran / max(1, blocks), min(shares), tuple(places), sum(_work(of) for _, of in counts)
        )

    def _count(self, tensor: Tensor) -> tuple[int, torch.Tensor | None]:
        """How many elements of an output were written, and the flat indices of the first, the last and PICKED
        random ones of them; (0, None) if none were."""
        view = self._layout.view(tensor).reshape(-1)
        total, ends, found = 0, [view.numel(), -1], []
        for start in range(0, view.numel(), PIECE):
            mask = self._is_written(view[start : start + PIECE])
            count = int(torch.count_nonzero(mask))
            total += count
            if not count:
                continue
            indices = torch.arange(count) if count == mask.numel() else mask.nonzero().flatten()
            ends = [min(ends[0], start + int(indices[0])), start + int(indices[-1])]
            found.append(start + indices[torch.randint(count, (PICKED,))])
        if not found:
            return total, None
        chosen = torch.cat(found)
        return total, torch.cat([torch.tensor(ends), chosen[torch.randperm(len(chosen))[:PICKED]]])

    def _is_written(self, values: torch.Tensor) -> torch.Tensor:
        """A flat boolean mask over an output's `values`: True where they differ from the poison byte that
        outputs were filled with before the call."""
        return _differs(values, self._poison)

    @property
    def _where(self) -> str:
        return f"{self._workload.name} workload {self._workload.sizes}"


def _differs(values: torch.Tensor, byte: int) -> torch.Tensor:
    """A flat boolean mask: which elements of `values` have another pattern than this byte repeated."""
    raw = values.reshape(-1)
    size = raw.element_size()
    kind = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[size]
    word = int.from_bytes(bytes([byte] * size), "little", signed=kind != torch.uint8)
    return raw.view(kind) != word


def _work(counts: Mapping[str, int]) -> int:
    """How much work one launch was for the emulator, from its `counts` by name, in the units of
    `Draws.most_work`: warp instructions, plus ACCESS_WORK for each access to memory."""
    accesses = ("global_load", "global_store", "shared_load", "shared_store", "local")
    requests = sum(int(counts[f"{name}_requests"]) for name in accesses)
    return int(counts["total_warp_instructions"]) + ACCESS_WORK * requests


def _within(outcome: object, where: str) -> Incorrect:
    """An outcome Incorrect that says at which large workload (`where`) an error was found. Its reason and
    evidence are those of `outcome`, which was found on a part of that workload."""
    assert isinstance(outcome, Incorrect)
    return Incorrect(reason=outcome.reason, evidence=f"within the {where}: {outcome.evidence}")
