"""Which calls follow one that leaves doubts, which values have doubts, and when they are settled."""

import random
from typing import Any

import pytest
import torch

from kernelblaster.judge import size_runs
from kernelblaster.judge.boxes import drawn_box, whole_box
from kernelblaster.judge.case import Case
from kernelblaster.judge.compare_outputs import OutputComparer
from kernelblaster.judge.doubts import MOST_DRAWS, Doubt, above_bound
from kernelblaster.judge.large_call import CallCoverage, TooMuchWorkError
from kernelblaster.judge.operand_rounding import OperandRounding
from kernelblaster.judge.precision import Comparison
from kernelblaster.judge.samples import OutputSample
from kernelblaster.judge.size_runs import SizeRuns
from kernelblaster.judge.slab_cases import all_of, cases_in_turns
from kernelblaster.judge.stop import Stop
from kernelblaster.ptx.machine import Draws
from kernelblaster.records import Incorrect, Task, Workload
from kernelblaster.records.evaluation import Errors
from kernelblaster.tasks.domain import Domain

NOTHING: Any = None
LARGE = Workload(name="primary", sizes={"x_0": 4000, "x_1": 3000})


def errors(rms: float) -> Errors:
    return Errors(rms=rms, worst=rms, tile=rms, relative=rms, lost=0)


def draw(task: Task, share: float, *, lenience: float = 1.0) -> list[OutputSample]:
    """One draw of values on which an output of few numbers takes this share of a bound of 16 roundings."""
    found = Comparison(errors(share * 16 * 2.0**-24), 0, 1.0, 2.0)
    (tensor,) = task.signature.outputs
    worst = torch.tensor([2.0])
    return [OutputSample(tensor, (found,), worst, errors(0), errors(0), 64, False, lenience)]


def doubt(task: Task, *shares: float) -> Doubt:
    comparer = OutputComparer(task, NOTHING, OperandRounding("none", 1.0))
    return Doubt(Case(LARGE, "sparse"), comparer, [draw(task, share) for share in shares])


def test_a_doubt_is_settled_by_all_draws_together(task: Task) -> None:
    assert above_bound(draw(task, 1.5)[0]) and not above_bound(draw(task, 0.9)[0])
    assert not doubt(task, 1.5).settled()
    assert doubt(task, 1.5, *[0.3] * 12).settled()
    assert doubt(task, *[0.99] * MOST_DRAWS).settled()
    with pytest.raises(Stop) as stopped:
        doubt(task, *[3.0] * 5).settled()
    outcome = stopped.value.outcome
    assert isinstance(outcome, Incorrect) and "over 5 draws" in outcome.evidence


def test_the_most_lenient_bound_of_all_draws_holds(task: Task) -> None:
    known = doubt(task, *[3.0] * 20)
    known.draws.append(draw(task, 3.0, lenience=512))
    assert known.settled()


class Calls:
    """Stands for LargeCall. Every call leaves a doubt, but the last of `count` calls does not."""

    def __init__(self, count: int, work: int = 1000, *, too_much: bool = False) -> None:
        self.count, self.work, self.too_much = count, work, too_much
        self.made: list[Any] = []
        self.doubts: list[Doubt] = []

    def __call__(self, *_: object) -> "Calls":
        self.made.append({})
        return self

    def fill(self, slabs: list[tuple[Any, Case]], *, apart: bool) -> None:
        self.made[-1] |= {
            "kinds": {case.distribution for _, case in slabs},
            "slabs": len(slabs),
            "apart": apart,
        }

    def run(self, draws: Draws, *, kept: bool) -> CallCoverage:
        if self.too_much:
            raise TooMuchWorkError("primary")
        self.made[-1] |= {"draws": draws, "kept": kept}
        return CallCoverage(share=0.1, covered=0.1, places=(), work=self.work)

    def compare(self, *, all_written: bool, settling: list[Doubt]) -> int:
        assert not all_written and settling
        self.doubts = [] if len(self.made) >= self.count else settling
        return 10


def settle(task: Task, calls: Calls, monkeypatch: pytest.MonkeyPatch) -> SizeRuns:
    monkeypatch.setattr(size_runs, "LargeCall", calls)
    known: Any = type("Known", (), {"task": task, "independent": ("x_0",)})
    runs = SizeRuns(NOTHING, known, NOTHING, NOTHING, NOTHING, operations=10**6)
    calls.doubts = [doubt(task, 2.0)]
    box = drawn_box(task.signature, LARGE, ("x_0",), random.Random(1))
    first: Any = calls
    runs._settle(first, LARGE, box, Draws(seed=7), random.Random(1))
    return runs


def test_calls_follow_until_no_doubt_is_left(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = Calls(3)
    assert settle(task, calls, monkeypatch).compared == 30
    assert len(calls.made) == 3
    for made in calls.made:
        assert made["kinds"] == {"sparse"} and made["slabs"] > 10 and made["apart"] and made["kept"]
        assert made["draws"] == Draws(seed=7)  # the same blocks


def test_doubts_cost_a_bounded_number_of_calls(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    for work, most in ((1000, size_runs.MOST_AGAIN), (size_runs.AGAIN_WORK // 2, 3)):
        calls = Calls(1000, work)
        settle(task, calls, monkeypatch)
        assert len(calls.made) == most
    calls = Calls(1000, too_much=True)
    assert settle(task, calls, monkeypatch).compared == 0


def test_slabs_get_cases_in_turns(task: Task) -> None:
    box = drawn_box(task.signature, LARGE, ("x_0",), random.Random(1))
    cases = [Case(LARGE, "sparse"), Case(LARGE, "grid", inputs=("grid",))]
    pairs = cases_in_turns(task, box, 10**6, cases)
    assert [case.distribution for _, case in pairs[:4]] == ["sparse", "grid", "sparse", "grid"]
    assert all(case.workload == slab.part for slab, case in pairs) and pairs[1][1].inputs == ("grid",)


def test_a_kind_is_for_inputs_along_the_split(task: Task) -> None:
    accepting: Any = type("Accepting", (), {"takes": lambda self, position, kind: kind != "nan"})
    domain: Domain = accepting()
    box = drawn_box(task.signature, LARGE, ("x_0",), random.Random(1))
    case = all_of(task, "step", box, domain)
    assert case is not None and case.inputs == ("step",) and case.distribution == "step"
    assert all_of(task, "nan", box, domain) is None
    assert all_of(task, "step", whole_box(LARGE), domain) is None
