"""States by distance: known, near, or discovered."""

import pytest

from kernelblaster.knowledge import KnowledgeBase, distance, nearest, plant
from kernelblaster.records import State

SLOW = State(
    name="slow", primary="latency", secondary=("low-occupancy",), metrics={"occupancy": 0.3, "dram": 0.2}
)


def like(name: str, **fields: object) -> State:
    return SLOW.model_copy(update={"name": name, **fields})


def test_distance_is_zero_for_equals_and_symmetric() -> None:
    other = like("other", primary="atomics", secondary=("tail-effect",), metrics={"dram": 0.9})
    assert distance(SLOW, like("again")) == 0
    assert distance(SLOW, other) == distance(other, SLOW) > 1


@pytest.mark.parametrize(
    ("nearer", "further"),
    [
        ({"metrics": {"occupancy": 0.35, "dram": 0.2}}, {"metrics": {"occupancy": 0.9, "dram": 0.2}}),
        ({"secondary": ()}, {"secondary": ("tail-effect", "small-blocks")}),
        ({"secondary": ("tail-effect",), "metrics": {}}, {"primary": "atomics"}),
    ],
)
def test_what_differs_less_is_nearer(nearer: dict[str, object], further: dict[str, object]) -> None:
    assert distance(SLOW, like("n", **nearer)) < distance(SLOW, like("f", **further))


def test_nearest_of_none_is_none() -> None:
    assert nearest(SLOW, []) is None


def test_a_state_is_known_near_or_discovered() -> None:
    kb = KnowledgeBase("sqlite://")
    kb.add_state(SLOW)
    assert kb.match(SLOW) == "slow"
    assert kb.match(like("slower", metrics={"occupancy": 0.25, "dram": 0.2})) == "slow"
    assert kb.match(like("stuck", primary="barriers")) == "stuck"
    assert kb.content().states["stuck"].discovered and not kb.content().states["slow"].discovered
    assert kb.optimizations("stuck") == []


def test_the_seed_knows_a_state_with_one_more_characteristic() -> None:
    kb = KnowledgeBase("sqlite://")
    plant(kb)
    found = State(name="barriers/small-blocks", primary="barriers", secondary=("small-blocks",))
    assert kb.match(found) == "barriers"
    assert kb.optimizations("barriers")[0].optimization.technique == "warp_shuffle_reduction"
