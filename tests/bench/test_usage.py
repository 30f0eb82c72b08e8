"""What was used, counted by hand on a few steps."""

from math import log

import pytest

from kernelblaster.bench.usage import START, discovery_of, usage_of
from kernelblaster.records import Step


def step(technique: str, result: float | str, parent: str, child: str, **more: object) -> Step:
    fields = {"id": "0/0/0/0", "state": "latency", "predicted": 1.1, "taken": True} | more
    return Step.model_validate(
        fields | {"technique": technique, "result": result, "parent": parent, "child": child}
    )


STEPS = {
    "one": [
        step("tiling", log(1.2), "a", "b"),
        step("tiling", log(1.2), "a", "b"),
        step("tensor", log(3.0), "b", "c", before=("tiling",), state="fp32-pipe"),
        step("tensor", "CompileFailed", "a", "d"),
    ],
    "two": [
        step("tensor", log(1.001), "a", "e"),
        step("tensor", "Unsupported", "a", "f"),
    ],
}


def test_each_application_counts_once_with_what_came_of_it() -> None:
    found = usage_of(STEPS)
    tensor = found.techniques["tensor"]
    assert (tensor.attempts, tensor.paid, tensor.idle, tensor.failed) == (3, 1, 1, 1)
    assert tensor.failures == {"CompileFailed": 1}
    assert tensor.median_speedup == pytest.approx((3.0 + 1.001) / 2)
    assert found.techniques["tiling"].attempts == 1
    assert found.states["latency"].attempts == 3 and found.pairs["fp32-pipe", "tensor"].paid == 1


def test_states_visited_and_transitions() -> None:
    found = usage_of(STEPS)
    assert found.visited == {"one": ["latency", "fp32-pipe"], "two": ["latency"]}
    assert found.states_a_task == 1.5
    best = found.transitions[0]
    assert (best.before, best.technique, best.attempts) == ("tiling", "tensor", 1)
    assert best.median_speedup == pytest.approx(3.0)
    assert {t.before for t in found.transitions} == {"tiling", START}


def test_nothing_was_used() -> None:
    found = usage_of({})
    assert found.states_a_task is None and found.as_dict()["techniques"] == []


def test_discovery_counts_what_paid_once() -> None:
    steps = [step for its_steps in STEPS.values() for step in its_steps]
    assert discovery_of(steps) == [(1, 1), (2, 1), (3, 2), (4, 2), (5, 2), (6, 2)]
