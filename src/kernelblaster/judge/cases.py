"""The plan of one verification: which kinds of values (huge, zero, NaN, sorted, ...) are tried at which
sizes.

Every candidate gets a plan of its own. All plans try the same kinds of values. The sizes at which each kind
is tried, the inputs that get it, and the order are drawn at random. Cheap cases come first, because most
wrong candidates fail early.
"""

import secrets
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import cycle
from random import Random

from kernelblaster.judge.baseline import Baseline
from kernelblaster.judge.case import FEW_TERMS, Case
from kernelblaster.records import Task, Tensor, Workload
from kernelblaster.tasks.distributions import OCTAVES, PLANTED, Distribution
from kernelblaster.tasks.domain import Domain
from kernelblaster.tasks.size_draws import Kind, SizeDraws

# One of each row comes in every plan; of the row of faint values, two.
ALWAYS: tuple[tuple[Distribution, ...], ...] = (
    ("large",),
    ("shifted",),
    ("far",),
    ("negated",),
    ("zeros",),
    ("equal",),
    ("zero-rows",),
    ("one-row",),
    ("padded",),
    ("one-hot",),
    ("alternating",),
    ("spiky",),
    ("rising",),
    ("peak",),
    ("level",),
    ("level",),
    ("beginning",),
    ("end", "sorted"),
    ("ramp", "scaled"),
    ("huge-scale", "vast-scale"),
    ("landmarks",),
    ("nan",),
    ("infinite",),
)
# These kinds come twice: at the base workload's sizes, and at others.
AT_BASE: tuple[tuple[Distribution, ...], ...] = (
    *((kind,) for kind in FEW_TERMS),
    ("octaves", "low-octaves"),
    ("mixed",),
)
FAINT: tuple[Distribution, ...] = (
    "small-scale",
    "tiny-scale",
    "minute-scale",
    "subnormal-scale",
    "subnormals",
)
# The kinds with the largest values, the largest first. The first of them that is accepted, and one of FAINT,
# come at the base workload's sizes too: there, a candidate may take another path than at others, in a number
# format of less range than the baseline's.
VAST: tuple[Distribution, ...] = ("vast-scale", "huge-scale")
# Kinds that find errors in long rows only: the larger workloads get these first.
LONG: tuple[Distribution, ...] = ("peak", "rising", "level", "beginning", "end", "sorted", "padded", "ramp")
MOVED: tuple[Distribution, ...] = ("scaled", "negated", "shifted", "large")
ALONE = 0.4  # chance that an input keeps the file's own values where another one takes the case's kind
EDGES = 4  # cases of a plan with extents 1, 2 or 3, or with round ones
LANDMARKED = 2  # cases with scalars that inputs equal
PLANTED_BYTES = 1 << 30  # of all tensors: NaN and infinity come at the base sizes too, if these are no larger
AT_LARGE = 2  # cases with a random kind at the base sizes; one more at other large sizes
ABOVE = 3  # sizes that are larger than the base's, each in one case
STEPS, STEPS_BYTES = 3, 32 << 20  # cases with a step at a size above the base's; larger tensors: one
SMALL_STEPS = 2  # all cases with a step around a small workload
PATCHED = 3  # cases in which a part of the values changes after a first call
LARGE_BYTES = 24 << 30  # that the cases at large sizes may move together; the others come at cheap sizes
FEWEST_LARGE = 3  # cases that stay at large sizes however many bytes they move, beside the last one
LARGE_SHARE = 0.25  # of the base's bytes: sizes from there on are large
CUT_SHORT = "not all {what} were tried: the reference takes too long for finding those that it accepts"
ROUNDS = 4  # on a device without a clock: last calls, with new values at the same addresses


@dataclass(frozen=True)
class SecretDraw:
    """The random choices of one evaluation, which a candidate cannot know. All of them follow from `seed`.
    `cases` is the verification plan of an earlier evaluation, to be run again; None: a new plan is drawn."""

    seed: int
    cases: tuple[Case, ...] | None = None

    @property
    def seeds(self) -> tuple[int, int, int]:
        """Three seeds that follow from `seed`: one that draws the plan of verification cases, one for the
        values in verification, one for timing."""
        rng = Random(self.seed)
        return rng.getrandbits(60), rng.getrandbits(60), rng.getrandbits(60)


class CasePlanner:
    """Draws verification plans (lists of cases) for one task. `baseline` is what candidates are compared
    with; it is run to find out which inputs it accepts. When the planner is made, `rng` draws the sizes that
    its plans choose from (None: a secret seed is used). These sizes are near the primary workload or, with
    `small` (for the emulator), near the task's small workload. `most_bytes` is the most that all tensors may
    take together at a drawn size. None: 1.3 times what they take at the primary workload, plus 4 MiB; with
    `small`, twice what they take at the small one."""

    def __init__(
        self,
        task: Task,
        baseline: Baseline,
        *,
        small: bool = False,
        most_bytes: int | None = None,
        rng: Random | None = None,
    ) -> None:
        self._task = task
        self._baseline = baseline
        self._small = small
        self._rng = rng or Random(secrets.randbits(256))
        self.sizes = SizeDraws(task, small=small, most_bytes=most_bytes, rng=self._rng)

    @property
    def workloads(self) -> tuple[Workload, ...]:
        """All workloads (choices of sizes) that a verification plan may contain; the arena, the memory that
        candidates work on, must have room for each."""
        own = (self.sizes.base,) if self._small else self._task.workloads
        return (*own, *(draw.workload for draw in self.sizes.draws))

    def largest_bytes(self, tensor: Tensor) -> int:
        """Returns the most bytes that `tensor` takes at any workload (sizes) that a verification plan may
        contain."""
        return max(workload.bytes(tensor) for workload in self.workloads)

    def draw(self, seed: int) -> list[Case]:
        """The verification plan for one candidate: cases in the order in which they are to run. For the same
        seed, this planner gives the same plan again; another planner of the same task does not, because it
        has drawn other sizes to choose from."""
        return _Plan(self._task, self.sizes, self.domain, Random(seed), self._small).cases()

    @cached_property
    def domain(self) -> Domain:
        """What may be varied in the inputs of the task while the outputs stay finite: which kinds of values
        each input tensor accepts, which other scalar arguments are possible, and whether integer parameters
        may be shuffled. At the first use, the reference is run to find out, at the task's small workload. If
        the task has none, or its module has other scalar inputs there, the reference is run at the smallest
        workload that plans may contain. (For a CUDA source nothing is run, because the source declares its
        domain.) The result is remembered after that."""
        base = self.sizes.base
        small = self._task.small
        if small is not None and self._baseline.at(small).scalars == self._baseline.at(base).scalars:
            return self._baseline.at(small).domain(small, self._rng)
        smallest = min(
            self.workloads, key=lambda w: (w.module != base.module, w.total_bytes(self._task.signature))
        )
        return self._baseline.at(smallest).domain(smallest, self._rng)

    @property
    def cut_short(self) -> list[str]:
        """Warnings, as sentences: which of two things (sizes, kinds of values) could not all be tried on the
        reference within the time limit, so that plans lack those that were not tried. Usually empty."""
        parts = (("sizes", self.sizes.cut_short), ("kinds of values", self.domain.cut_short))
        return [CUT_SHORT.format(what=what) for what, cut in parts if cut]


class _Plan:
    """Draws one verification plan. `sizes` are the sizes to choose from, `domain` the kinds of values that
    inputs accept; `small`: all sizes are near the small workload, for the emulator."""

    def __init__(self, task: Task, sizes: SizeDraws, domain: Domain, rng: Random, small: bool) -> None:
        self._task = task
        self._sizes = sizes
        self._domain = domain
        self._rng = rng
        self._small = small
        own = (sizes.base,) if small else (task.held_out or (task.primary,))
        cheap = min(own, key=lambda w: w.total_bytes(task.signature))
        few = sizes.of("few") or [cheap]
        # All that are longer than the base somewhere come in every plan, as far as there are cases for them.
        self._few = cycle(sorted(rng.sample(few, len(few)), key=self._within_base))
        self._kinds = self._drawn_kinds()
        self._all = tuple(self._kinds)

    def cases(self) -> list[Case]:
        """The verification plan as a list: first an easy case, then all others from cheap to costly, last
        repeated runs at the base sizes (the timed ones; on the emulator, the small ones)."""
        base = self._sizes.base
        first = Case(next(self._few), "written", runs=2, moved=False)
        cases = [Case(self._edge(), "written")]
        cases += self._sized()
        cases += [self._case(next(self._few), kind) for kind in self._kinds]
        cases += self._focused() + self._scalars() + self._at_base() + self._equal_inputs()
        patched = PATCHED - 1 if self._small else PATCHED
        cases += [Case(next(self._few), "written", patched=True) for _ in range(patched)]
        if self._domain.shuffled:
            cases.append(Case(next(self._few), "written", shuffled=self._domain.shuffled))
        if self._small:
            cases.append(Case(base, "written", runs=2, moved=False))
        elif self._task.small is not None and self._task.small_declared:
            cases.append(Case(self._task.small, "written"))
        if not self._small:
            cases = self._affordable(cases)
        cases.sort(key=self._cost)
        last = [Case(base, "written", stays=True) for _ in range(ROUNDS)]
        return [first, *cases, *(last if self._small else [Case(base, "written", runs=3, moved=False)])]

    def _affordable(self, cases: list[Case]) -> list[Case]:
        """Keeps a verification plan with large tensors fast. Cases at large sizes that would together touch
        more than LARGE_BYTES are given cheap sizes instead; which of them is drawn at random. At least
        FEWEST_LARGE stay large, at different kinds of sizes if possible."""
        signature = self._task.signature
        bytes_of = [case.workload.total_bytes(signature) for case in cases]
        least = LARGE_SHARE * self._sizes.base.total_bytes(signature)
        large = [n for n, size in enumerate(bytes_of) if size >= least]
        self._rng.shuffle(large)
        first = {cases[n].workload.name: n for n in reversed(large)}
        left, kept = LARGE_BYTES, 0
        moved = list(cases)
        for n in dict.fromkeys([*first.values(), *large]):
            cost = cases[n].runs * bytes_of[n]
            if cost <= left or kept < FEWEST_LARGE:
                left, kept = left - cost, kept + 1
            else:
                moved[n] = replace(cases[n], workload=next(self._few))
        return moved

    def _within_base(self, workload: Workload) -> bool:
        base = self._sizes.base.sizes
        return all(extent <= base[name] for name, extent in workload.sizes.items())

    def _edge(self) -> Workload:
        """A workload with some extents of 1, 2 or 3 if one was drawn, else any cheap one."""
        edges = self._sizes.of("edge")
        return self._rng.choice(edges) if edges else next(self._few)

    def _drawn_kinds(self) -> list[Distribution]:
        """The kinds of values for one verification plan: one from each row of ALWAYS and two of FAINT, in
        random order; only kinds that some input accepts."""
        kinds = [self._rng.choice(taken) for row in ALWAYS if (taken := self._taken(row))]
        faint = self._taken(FAINT)
        kinds += self._rng.sample(faint, min(2, len(faint)))
        self._rng.shuffle(kinds)
        return kinds

    def _sized(self) -> list[Case]:
        """Draws the cases at sizes larger than usual, and those at the smallest extents. A kind of values
        that is used there is taken out of `_kinds`, so that it is not tried again at cheap sizes. Some
        further kinds, drawn at random, are tried at both."""
        sizes, rng = self._sizes, self._rng
        above = self._above()
        larger = self._larger(above)
        cases: list[Case] = []
        long = rng.sample(LONG, len(LONG))
        for workload in larger:
            chosen: Distribution = next((k for k in long if k in self._kinds), "written")
            if chosen in self._kinds:
                self._kinds.remove(chosen)
            cases.append(self._case(workload, chosen))
        cases += self._steps(above)
        if drawn := sizes.of("tiled"):
            cases.append(self._case(rng.choice(drawn), "written"))
        cases += self._planted_at_base()
        # What is right for small tensors only: any kind of values, and scalars, at large ones too.
        for workload in (*[sizes.base] * AT_LARGE, rng.choice(larger)):
            kinds = [k for k in self._all if k not in PLANTED] if workload is sizes.base else self._all
            cases.append(self._case(workload, rng.choice(kinds or ["written"])))
        far = (self._taken(VAST)[:1], self._taken(FAINT))
        cases += [self._case(sizes.base, rng.choice(kinds)) for kinds in far if kinds]
        if self._domain.scalars:
            cases.append(Case(sizes.base, "written", scalars=rng.choice(self._domain.scalars)))
        edges = [*sizes.of("edge"), *sizes.of("round")]
        for workload in rng.sample(edges, min(EDGES, len(edges))):
            kind = next((kind for kind in self._kinds if kind not in PLANTED), None)
            if kind is not None:  # whole rows of NaN are to be longer than these
                self._kinds.remove(kind)
                cases.append(self._case(workload, kind))
        return cases

    def _steps(self, above: list[Workload]) -> list[Case]:
        """Cases with the kind "step" (values that jump to another level along a row) at the workloads of
        `above`: cancellation shows most in long rows. Empty if no input accepts it."""
        if not self._taken(("step",)):
            return []
        if self._small:  # these take long to execute
            chosen = self._rng.sample(above, min(SMALL_STEPS, len(above)))
            return [self._case(workload, "step") for workload in chosen]
        signature = self._task.signature
        often = [STEPS if workload.total_bytes(signature) <= STEPS_BYTES else 1 for workload in above]
        return [self._case(w, "step") for w, times in zip(above, often, strict=True) for _ in range(times)]

    def _above(self) -> list[Workload]:
        """For up to ABOVE of the free sizes (those that may vary) the workload in which that size is largest;
        on the emulator, also up to ABOVE in which such a size is larger than in the primary workload (the
        timed sizes)."""
        sizes, rng = self._sizes, self._rng
        free = [size.name for size in self._task.signature.sizes if size.kind == "free"]
        longest = [max(w, key=lambda one: one.sizes[name]) for name in free if (w := sizes.above(name))]
        above = rng.sample(longest, min(ABOVE, len(longest)))
        if self._small:
            beyond = [rng.choice(drawn) for name in free if (drawn := sizes.stretched(name))]
            above += rng.sample(beyond, min(ABOVE, len(beyond)))
        return above

    def _larger(self, above: list[Workload]) -> list[Workload]:
        """Workloads of about the size of the base (the timed sizes; on the emulator, the small ones) or
        larger: the base itself, those in `above`, and one drawn next to, below and above the base each, where
        there is one."""
        sizes, rng = self._sizes, self._rng
        larger = [sizes.base, *above]
        others: tuple[tuple[Kind, ...], ...] = (("beside",), ("below",))
        for kinds in others if self._small else (*others, ("above", "long")):
            larger += [rng.choice(drawn)] if (drawn := sizes.of(*kinds)) else []
        if len(larger) == 1 and not self._small:
            larger += [w for w in self._task.workloads if w.name in ("odd", "near")]
        return larger

    def _planted_at_base(self) -> list[Case]:
        """A case with NaN or infinity in the inputs at the base (timed) sizes; empty on the emulator, if
        these are too large, or if no input accepts them."""
        base = self._sizes.base
        kinds = [kind for kind in self._all if kind in PLANTED]
        if self._small or not kinds or base.total_bytes(self._task.signature) > PLANTED_BYTES:
            return []
        return [self._case(base, self._rng.choice(kinds))]

    def _case(self, workload: Workload, kind: Distribution) -> Case:
        """A case with this kind of values at this workload. Of several inputs that accept it, at least one
        takes it; each of the others keeps the task file's own values with probability ALONE."""
        inputs: list[Distribution] = [
            kind if self._domain.takes(position, kind) else "written"
            for position in range(len(self._task.signature.input_tensors))
        ]
        takers = [position for position, chosen in enumerate(inputs) if chosen == kind]
        if len(takers) > 1 and kind not in ("written", *OCTAVES):
            kept = self._rng.choice(takers)
            for position in takers:
                if position != kept and self._rng.random() < ALONE:
                    inputs[position] = "written"
        return Case(workload, kind, inputs=tuple(inputs))

    def _taken(self, row: tuple[Distribution, ...]) -> list[Distribution]:
        """Of these kinds of values, those that at least one input accepts."""
        inputs = range(len(self._task.signature.input_tensors))
        return [kind for kind in row if any(self._domain.takes(position, kind) for position in inputs)]

    def _at_base(self) -> list[Case]:
        """A case for each row of kinds of values in AT_BASE, both at the base sizes (the timed ones; on the
        emulator, the small ones) and at other ones."""
        kinds = [kind for row in AT_BASE for kind in self._taken(row)[:1]]
        return [self._case(w, kind) for kind in kinds for w in (self._sizes.base, self._other())]

    def _other(self) -> Workload:
        """A cheap workload other than the base; on the emulator, if possible, one with an extent as long as
        in the primary workload (the timed sizes)."""
        long = self._sizes.of("stretched") if self._small else []
        return self._rng.choice(long) if long else next(self._few)

    def _equal_inputs(self) -> list[Case]:
        """Cases in which inputs of equal shape hold equal values; empty if the reference does not accept
        that."""
        if not self._domain.twins:
            return []
        return [Case(workload, "written", twins=True) for workload in (next(self._few), self._sizes.base)]

    def _focused(self) -> list[Case]:
        """One case for each floating input and parameter, in which only that one is changed; empty for a task
        with at most two tensors (one read, one written)."""
        signature = self._task.signature
        if len(signature.tensors) <= 2:
            return []
        cases = []
        for tensor in signature.read_tensors:
            if not tensor.floating:
                continue
            inputs: list[Distribution] = ["written"] * len(signature.input_tensors)
            if tensor in signature.input_tensors:
                position = signature.input_tensors.index(tensor)
                inputs[position] = self._rng.choice(
                    [k for k in MOVED if self._domain.takes(position, k)] or ["ramp"]
                )
            workload = next(self._few)
            cases.append(Case(workload, "written", moved=False, focus=tensor.name, inputs=tuple(inputs)))
        return cases

    def _scalars(self) -> list[Case]:
        """One case for each alternative set of scalar arguments, and up to LANDMARKED cases in which inputs
        contain values equal to the scalars."""
        marks, moves = list(self._domain.landmarks), list(self._domain.scalars)
        chosen = self._rng.sample(marks, min(LANDMARKED, len(marks)))
        return [
            *(Case(next(self._few), "written", scalars=move) for move in moves),
            *(replace(self._case(self._sizes.base, "landmarks"), scalars=move) for move in chosen),
        ]

    def _cost(self, case: Case) -> float:
        """Sort key of cases: roughly log4 of the bytes that all runs touch, so that cases of about equal cost
        compare equal and stay in the order in which they were drawn."""
        return (case.runs * case.workload.total_bytes(self._task.signature)).bit_length() // 2
