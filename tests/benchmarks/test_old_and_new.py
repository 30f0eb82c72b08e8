"""Old and new sources are paired by what they do, and judged with the old one as the baseline."""

import time
from contextlib import closing

import pytest
from old_and_new import Compared, Pair, judged_pairs, page, pairs_in
from old_and_new_sources import pairs_of

from kernelblaster.devices.emulated import EmulatedDevice
from kernelblaster.policies.expert.capture import capture
from kernelblaster.policies.expert.emit import emit
from kernelblaster.policies.expert.lower import initial_plan
from kernelblaster.records import Timing
from kernelblaster.records.outcome import Speedup
from kernelblaster.tasks.catalog import load_task

TASK = "core/level1/relu"
KERNEL = "__global__ void relu(float* out) {{\n  out[0] = {};\n}}"


def side(*values):
    return {
        "sources": {
            f"path{n}": {"applied": [f"t{n}"], "source": KERNEL.format(v)} for n, v in enumerate(values)
        }
    }


def test_only_programs_that_differ_are_paired_once():
    pairs, same, differing = pairs_of(side("(1)", "2", "3", "3"), side("1", "20", "30", "30"), most=1)
    assert (same, differing) == (1, 2)
    assert [pair["path"] for pair in pairs] == ["path1"]


def test_first_pairs_of_all_tasks_come_first():
    pair = {"old_applied": ["a"], "new_applied": [], "old": "x", "new": "y"}
    found = pairs_in({"one": {"pairs": [pair, pair]}, "two": {"pairs": [pair]}, "three": {}}, [])
    assert [(one.task, one.place) for one in found] == [("one", 1), ("two", 1), ("one", 2)]
    assert found[0].techniques == "none (before: a)"


def timing(old_us, new_us):
    ratio = old_us / new_us
    return Timing(
        baseline="old kernel",
        baseline_us=old_us,
        candidate_us=new_us,
        speedup=Speedup(estimate=ratio, low=ratio * 0.99, high=ratio * 1.01, confidence=0.99),
        samples=8,
        candidate_wall_us=None,
        candidate_activity_us=None,
        floor_us=1.0,
        seconds=0.1,
    )


def test_page_is_true_after_a_part():
    pairs = [Pair(name, 1, "none", "", "") for name in ("one", "two", "three")]
    done = [
        Compared(pairs[0], "right", "right", timing(100, 110)),
        Compared(pairs[1], "right", "wrong", None),
    ]
    told = {"before": "a", "after": "b", "tasks": {p.task: {"pairs": [1]} for p in pairs} | {"four": {}}}
    text = "\n".join(page(told, pairs, done, "GPU"))
    assert "2 are done, 1 are not" in text
    assert (
        "mean of 1 pairs: **1.100**" in text
        and "with 1 for each of the 1 tasks that are the same: 1.049" in text
    )
    assert "Above 1.03: 1 pairs, 1 of them" in text and "Right before and not now: 1." in text


@pytest.mark.parametrize("wrong", [False, True])
def test_a_source_is_judged_beside_another(wrong):
    task = load_task(TASK)
    source = emit(initial_plan(capture(task)))
    old = source.replace("0.0f", "1.0f") if wrong else source
    assert (old != source) == wrong
    tasks = {TASK: {"task": task.model_dump(mode="json")}}
    with closing(EmulatedDevice()) as device:
        [one] = judged_pairs([Pair(TASK, 1, "none", old, source)], tasks, device, time.monotonic() + 600)
    assert one.new == "right"
    assert one.old.startswith("Incorrect") if wrong else one.ratio == pytest.approx(1.0)
    assert (one.timing is None) == wrong
