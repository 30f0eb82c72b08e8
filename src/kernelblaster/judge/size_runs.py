"""Runs one candidate at large workloads on the emulator and compares the results with the reference: chooses
the values of each call, how many of its blocks are run, and which further calls are needed if errors might be
due to chance."""

import random
from dataclasses import replace

from kernelblaster.devices.device import Arena, Device
from kernelblaster.devices.emulated import EmulatedRunner
from kernelblaster.judge.boxes import Box, drawn_box, rows_box
from kernelblaster.judge.case import Case
from kernelblaster.judge.large_call import CallCoverage, LargeCall, LargeTask, TooMuchWorkError
from kernelblaster.judge.slab_cases import KINDS, all_of, cases_in_turns, slab_cases
from kernelblaster.ptx.machine import Draws
from kernelblaster.records import Workload
from kernelblaster.tasks.domain import Domain

FEW_KINDS = 5  # kinds of values in a call of which probably only some blocks are run
BLOCKS, FEWEST_BLOCKS = 96, 12  # of a launch that are run: usually, and where they take long
SAMPLED_WORK = 60_000_000  # of these, in the units of Draws.most_work: about half a second of one core
WHOLE_WORK = 400_000_000  # of a whole call: about four seconds of one core
AGAIN_WORK = 150_000_000  # up to this a whole call is made a second time, or calls to settle a doubt
MOST_AGAIN = 24  # calls to settle doubts
STEPS, STEPS_WORK = 6, 60_000_000  # calls with steps in long rows, and the most work of them together
COVERED = 0.97  # share of the outputs that blocks must write, by what those write that were run


class SizeRuns:
    """Makes calls of one candidate at large workloads on the emulator (`device`), and compares their outputs
    with the reference, which `known` has. `runner` has the candidate loaded; it shares the memory `arena`.
    `domain` says which kinds of values inputs accept. `operations` is the number of arithmetic operations of
    the reference at the primary workload (the timed sizes). The attribute `compared` counts the output
    elements compared so far."""

    def __init__(
        self,
        device: Device,
        known: LargeTask,
        runner: EmulatedRunner,
        arena: Arena,
        domain: Domain,
        operations: int,
    ) -> None:
        self._device = device
        self._known = known
        self._runner = runner
        self._arena = arena
        self._domain = domain
        self._operations = operations
        self.compared = 0

    def thoroughly(self, workload: Workload, rng: random.Random) -> CallCoverage | None:
        """Makes a call at the sizes of `workload` and compares its outputs with the reference; then a second
        call in the same way. The second call has other values and scalars, drawn by `rng`, and lies at other
        addresses; global variables still hold what the first call left there. It is left out if it would take
        the emulator too long.

        Returns how much of the first call was run and written; None if the call takes more work than the
        emulator is allowed to do. If the blocks that were run wrote too little (`uncovered`), the first call
        is made again with all blocks. If that is too much work, or if no block that was run wrote anything,
        nothing is compared. Raises Stop if results are wrong.
        """
        first, box, draws, written = self._first(workload, rng)
        if written is None:
            return None
        if uncovered(written) is not None:
            draws = replace(draws, most_blocks=0, most_work=WHOLE_WORK)
            try:
                written = first.run(draws)
            except TooMuchWorkError:
                return written
        if self._sampled(written) and not written.places:
            return written
        box = self._compare(first, workload, box, draws, written, rng)
        if not self._sampled(written) and written.work > AGAIN_WORK:
            return written
        again = self._call(workload, rng, like=first)
        again.fill(self._cases(box, rng, again=True))
        try:
            second = again.run(draws, kept=True)
        except TooMuchWorkError:  # other values and addresses may take a little more than the first call's
            return written
        self.compared += again.compare(all_written=second.share >= 1)
        self._settle(again, workload, box, draws, rng)
        return written

    def once(self, workload: Workload, rng: random.Random) -> None:
        """Makes one call at the sizes of `workload`, with values drawn by `rng`, and compares it, unless it
        is too much work. Raises Stop if results are wrong."""
        call, box, draws, written = self._first(workload, rng)
        if written is not None and (written.share >= 1 or written.places):
            self._compare(call, workload, box, draws, written, rng)

    def whole(self, workload: Workload, rng: random.Random, *, steps: bool) -> None:
        """Makes one call at the sizes of `workload`, with all blocks run, and compares every output element
        with the reference; skips it if it would be too much work for the emulator. With `steps`, up to six
        more calls follow, as far as they take little work. Their inputs jump to a much larger value near the
        beginning of every row, and stay there: a kernel that sums relative to the mean of a row's beginning
        then loses most of its precision. Raises Stop if results are wrong."""
        box = self._box(workload, rng)
        draws = Draws(seed=rng.getrandbits(62), unordered=True, most_work=WHOLE_WORK)
        work = self._all_blocks(workload, box, self._cases(box, rng), draws, rng)
        case = all_of(self._known.task, "step", box, self._domain) if steps else None
        if case is None or not work:
            return
        stepped = cases_in_turns(self._known.task, box, self._operations, [case])
        for _ in range(min(STEPS, STEPS_WORK // work)):
            self._all_blocks(workload, box, stepped, draws, rng, apart=True)

    def _all_blocks(
        self,
        workload: Workload,
        box: Box,
        cases: list[tuple[Box, Case]],
        draws: Draws,
        rng: random.Random,
        *,
        apart: bool = False,
    ) -> int:
        """Make and compare one call with these `cases` on slabs of `box`, drawn `apart` if they are of the
        same kind. Returns how much work it was, 0 if it was too much."""
        call = self._call(workload, rng)
        call.fill(cases, apart=apart)
        try:
            work = call.run(draws).work
        except TooMuchWorkError:
            return 0
        self.compared += call.compare(all_written=True)
        self._settle(call, workload, box, draws, rng)
        return work

    def _first(
        self, workload: Workload, rng: random.Random
    ) -> tuple[LargeCall, Box, Draws, CallCoverage | None]:
        """Makes a call at `workload` with values drawn by `rng`: returns it, the box that has kinds of values
        of its own, the emulator's settings that it was run with, and what it did, None if it is too much
        work."""
        call = self._call(workload, rng)
        apart = call.launches == 1
        box = self._box(workload, rng)
        cases = self._cases(box, rng)
        call.fill(cases[:FEW_KINDS] if apart else cases)
        seed = rng.getrandbits(62)
        for blocks in (BLOCKS, FEWEST_BLOCKS) if apart else (0,):
            work = SAMPLED_WORK if blocks == BLOCKS else WHOLE_WORK
            draws = Draws(seed=seed, most_blocks=blocks, unordered=True, most_work=work)
            try:
                return call, box, draws, call.run(draws)
            except TooMuchWorkError:
                continue
        return call, box, draws, None

    def _sampled(self, written: CallCoverage) -> bool:
        return written.share < 1 and bool(self._known.independent)

    def _compare(
        self,
        call: LargeCall,
        workload: Workload,
        box: Box,
        draws: Draws,
        written: CallCoverage,
        rng: random.Random,
    ) -> Box:
        """Compares a first call, which did what `written` says and whose slabs are of `box`. Returns the box
        for calls with the same blocks after it: if only some were run, one of rows that these write."""
        if self._sampled(written):
            part = call.neighbourhood(written.places)
            box = rows_box(self._known.task.signature, part, call.written_rows(part), KINDS, rng)
            self.compared += call.compare(part, all_written=False)
        else:
            self.compared += call.compare(all_written=written.share >= 1)
            box = self._box(workload, rng)
        self._settle(call, workload, box, draws, rng)
        return box

    def _settle(
        self, call: LargeCall, workload: Workload, box: Box, draws: Draws, rng: random.Random
    ) -> None:
        """Makes further calls with the kinds of values on which `call` left doubts, as verification draws
        such values again, until all errors together decide. Doubts stay open if that takes too much work.
        Raises Stop if results are wrong."""
        spent = 0
        for _ in range(MOST_AGAIN):
            if not call.doubts or spent > AGAIN_WORK:
                return
            another = self._call(workload, rng)
            kinds = [doubt.case for doubt in call.doubts]
            another.fill(cases_in_turns(self._known.task, box, self._operations, kinds), apart=True)
            try:
                written = another.run(draws, kept=True)
            except TooMuchWorkError:
                return
            spent += written.work
            self.compared += another.compare(all_written=written.share >= 1, settling=call.doubts)
            call = another

    def _call(self, workload: Workload, rng: random.Random, like: LargeCall | None = None) -> LargeCall:
        return LargeCall(self._device, self._known, self._runner, self._arena, workload, rng, like)

    def _box(self, workload: Workload, rng: random.Random) -> Box:
        return drawn_box(self._known.task.signature, workload, self._known.independent, rng)

    def _cases(self, box: Box, rng: random.Random, *, again: bool = False) -> list[tuple[Box, Case]]:
        return slab_cases(self._known.task, box, self._operations, self._domain, rng, again)


def uncovered(seen: CallCoverage) -> str | None:
    """Decides whether a call of which only some blocks were run proves enough: these blocks must have written
    at least 97 % (COVERED) of their share of every output. `seen` says how much was run and written. Returns
    None if they did, or if all blocks were run; otherwise the reason in words, with both fractions."""
    if seen.share >= 1 or seen.covered >= COVERED * seen.share:
        return None
    return (
        f"{seen.share:.2%} of the blocks, drawn at random, wrote {seen.covered:.2%} of an output: "
        "too little to stand for the rest"
    )
