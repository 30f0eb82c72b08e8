"""Policy evaluation and gap analysis: what differed, and why, from two profiles."""

from math import log
from typing import Any

import pytest

from kernelblaster.judge.timing import conclude
from kernelblaster.knowledge import Content, KnowledgeBase, Provenance
from kernelblaster.policies.expert.learning import ExpertLearning
from kernelblaster.policies.policy import Gap, PolicyEvaluation
from kernelblaster.records import (
    CompileFailed,
    Evaluation,
    KernelProfile,
    Metric,
    Optimization,
    Outcome,
    Profile,
    RuntimeFailed,
    State,
    Step,
    StepId,
    Timing,
)
from kernelblaster.records.outcome import Speedup
from kernelblaster.store.replay import Sample

FLOOR = 1 << 20
NOTHING = PolicyEvaluation([])


def kernel(name: str, us: float, **shares: float) -> KernelProfile:
    """Shares in percent; `registers` and `spills` as they are."""
    names = {
        "dram": "DRAM Throughput",
        "issue": "Issue Slots Busy",
        "occupancy": "Theoretical Occupancy",
        "spills": "ptxas Spill Stores",
    }
    metrics = [Metric(name="Duration", unit="us", value=us, tier="modelled")]
    metrics += [
        Metric(name=names[n], unit="byte" if n == "spills" else "%", value=v, tier="modelled")
        for n, v in shares.items()
    ]
    return KernelProfile(name=name, grid=(9999, 1, 1), block=(256, 1, 1), metrics=tuple(metrics))


def judged(*kernels: KernelProfile, outcome: Outcome | None = None) -> Evaluation:
    fields: dict[str, Any] = {"outcome": outcome}
    if outcome is None:
        took = sum(k.duration_us or 0.0 for k in kernels)
        speedup = Speedup(estimate=100 / took, low=100 / took, high=100 / took, confidence=0.99)
        fields = {
            "outcome": conclude(speedup),
            "profile": Profile(device="NVIDIA H200", tier="modelled", workload="primary", kernels=kernels),
            "timing": Timing(
                baseline="b", baseline_us=100, candidate_us=took, speedup=speedup, samples=1,
                candidate_wall_us=None, candidate_activity_us=None, floor_us=1, seconds=0,
            ),
        }  # fmt: skip
    return Evaluation(task="t", candidate="c", device="d", seconds=0, **fields)


def sample(
    before: Evaluation, after: Evaluation, result: float | str, number: int = 0, **fields: Any
) -> Sample:
    step = Step(
        id=StepId(0, 0, number), state="s", technique="a", predicted=2.0, result=result, taken=False,
        kernel="k", parent="p", child=f"c{number}", **fields,
    )  # fmt: skip
    return Sample(step, before, after, FLOOR)


def gap_of(*samples: Sample, now: Content | None = None) -> Gap:
    learner = ExpertLearning()
    found = learner.evaluate(samples, [], Content(), "sm_90a")
    if now is None:
        kb = knowing(2.0)
        now = kb.content()
    (gap,) = learner.explain(found, now)
    return gap


def knowing(predicted: float) -> KnowledgeBase:
    kb = KnowledgeBase("sqlite://")
    kb.add_state(State(name="s", primary="latency"))
    kb.add_optimization("s", Optimization(technique="a", title="a", description="", predicted=predicted))
    return kb


PLAIN = kernel("k", 100, dram=40.0, issue=30.0, occupancy=80.0)


@pytest.mark.parametrize(
    ("before", "after", "cause"),
    [
        ((PLAIN,), (kernel("k", 98, dram=41.0, issue=30.0, occupancy=80.0),), "bottleneck-stayed"),
        ((PLAIN,), (kernel("k", 99, dram=41.0, issue=30.0, occupancy=30.0),), "occupancy-fell"),
        ((PLAIN,), (kernel("k", 140, dram=25.0, issue=21.0, occupancy=80.0),), "less-busy"),
        ((PLAIN,), (kernel("k", 95, dram=45.0, issue=92.0, occupancy=80.0),), "bottleneck-changed"),
        ((PLAIN,), (kernel("k", 20, dram=90.0, issue=40.0, occupancy=80.0),), "bottleneck-removed"),
        (
            (PLAIN, kernel("other", 900, dram=90.0)),
            (kernel("k", 50, dram=60.0, issue=40.0, occupancy=80.0), kernel("other", 900, dram=90.0)),
            "small-share",
        ),
    ],
)
def test_the_cause_is_read_off_the_two_profiles(
    before: tuple[KernelProfile, ...], after: tuple[KernelProfile, ...], cause: str
) -> None:
    times = [sum(k.duration_us or 0.0 for k in kernels) for kernels in (before, after)]
    gap = gap_of(sample(judged(*before), judged(*after), log(times[0] / times[1])))
    assert gap.cause == cause
    assert "instead of 2.00x, 1 of 1 valid" in gap.sentence


def test_failures_say_what_the_compiler_or_the_judge_said() -> None:
    wrong = judged(outcome=CompileFailed(reason="error: x is undefined", log=""))
    gap = gap_of(sample(judged(PLAIN), wrong, "CompileFailed"))
    assert gap.cause == "compile-error" and "x is undefined" in gap.sentence
    greedy = judged(outcome=RuntimeFailed(reason="too many resources requested for launch", evidence=""))
    assert gap_of(sample(judged(PLAIN), greedy, "RuntimeFailed")).cause == "resources-exceeded"


def test_what_came_as_expected_is_no_gap() -> None:
    found = ExpertLearning().evaluate(
        [sample(judged(PLAIN), judged(kernel("k", 50, dram=80.0)), log(2.0))], [], Content(), "sm_90a"
    )
    (one,) = found.discrepancies
    assert one.count == 1 and not one.surprising
    assert ExpertLearning().explain(found, Content()) == []


def test_earlier_samples_count_and_the_same_step_counts_once() -> None:
    one = sample(judged(PLAIN), judged(kernel("k", 50)), log(2.0), 1)
    other = sample(judged(PLAIN), judged(kernel("k", 100)), 0.0, 2)
    (found,) = ExpertLearning().evaluate([one], [one, other], Content(), "sm_90a").discrepancies
    assert found.count == 2
    assert found.measured == pytest.approx(log(2.0) / 2)
    assert found.interval is not None and found.interval[0] < found.measured < found.interval[1]


def test_a_missing_preparation_is_named() -> None:
    kb = knowing(2.0)
    here = Provenance(architecture="sm_90a")
    for _ in range(6):
        kb.observe("s", "a", 0.0, here)
        kb.observe("s", "a", 0.8, here, before=("tile",))
    gap = gap_of(sample(judged(PLAIN), judged(kernel("k", 100, dram=40.0)), 0.0), now=kb.content())
    assert gap.cause == "needs-preparation" and "tile" in gap.sentence


def test_the_update_notes_each_cause_once_and_replaces_a_contradicted_prior() -> None:
    kb = knowing(2.0)
    for _ in range(5):
        kb.observe("s", "a", 0.0, Provenance(architecture="sm_90a"))
    gap = gap_of(sample(judged(PLAIN), judged(PLAIN), 0.0), now=kb.content())
    changes = ExpertLearning().update(NOTHING, [gap], kb.content())
    assert [change.kind for change in changes] == ["noted", "prior_set"]
    kb.record(changes)
    assert kb.content().entry("s", "a").prior == pytest.approx(0.0)
    assert ExpertLearning().update(NOTHING, [gap], kb.content()) == []
