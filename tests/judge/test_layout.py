import itertools
import random

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelblaster.devices.device import Arena, Slot
from kernelblaster.devices.window import BEGIN, BYTES, PAGE
from kernelblaster.judge.layout import float64_views, lay_out, slot_bytes, spare_bytes
from kernelblaster.records import Signature, Size, Tensor, Workload

SIGNATURE = Signature(
    outputs=(Tensor(name="out", role="output", dtype="float16", dims=("a",)),),
    inputs=(
        Tensor(name="x", role="input", dtype="float32", dims=("a", "b")),
        Tensor(name="mask", role="input", dtype="bool", dims=("b",)),
    ),
    parameters=(Tensor(name="w", role="parameter", dtype="int64", dims=()),),
    sizes=(Size(name="a", kind="free"), Size(name="b", kind="free")),
)


def arena_for(workload: Workload, *, page: int = 4096) -> Arena:
    sizes = [-(-size // page) * page for size in slot_bytes(SIGNATURE, [workload])]
    starts = [sum(sizes[:index]) for index in range(len(sizes))]
    memory = torch.zeros(sum(sizes) + spare_bytes(SIGNATURE, [workload]), dtype=torch.uint8)
    return Arena(memory, tuple(Slot(start, size) for start, size in zip(starts, sizes, strict=True)))


@given(st.integers(1, 300), st.integers(1, 300), st.integers(0, 10**6))
@settings(max_examples=80)
def test_tensors_never_overlap_and_always_fit(a: int, b: int, seed: int) -> None:
    workload = Workload(name="odd", sizes={"a": a, "b": b})
    arena = arena_for(workload)
    layout = lay_out(arena, SIGNATURE, workload, random.Random(seed))
    layout.set_guards()
    for number, tensor in enumerate(SIGNATURE.tensors, 1):
        assert layout.pointers[tensor.name].address % 256 == 0
        assert tuple(layout.view(tensor).shape) == workload.shape(tensor)
        layout.raw(tensor).fill_(number)
    for number, tensor in enumerate(SIGNATURE.tensors, 1):
        assert bool((layout.raw(tensor) == number).all())
    assert layout.broken_guard() is None


def test_layouts_differ_from_case_to_case() -> None:
    workload = Workload(name="odd", sizes={"a": 5, "b": 7})
    arena = arena_for(workload)
    rng = random.Random(1)
    drawn = [lay_out(arena, SIGNATURE, workload, rng).pointers["x"] for _ in range(20)]
    assert len({pointer.address for pointer in drawn}) == 20
    assert len({pointer.offset for pointer in drawn}) == 2  # at its slot's begin, or at its end


def test_a_layout_like_another_differs_by_whole_pages() -> None:
    workload = Workload(name="odd", sizes={"a": 5, "b": 7})
    arena = arena_for(workload)
    rng = random.Random(1)
    for _ in range(8):
        one = lay_out(arena, SIGNATURE, workload, rng)
        other = lay_out(arena, SIGNATURE, workload, rng, like=one)
        for name, pointer in one.pointers.items():
            moved = other.pointers[name].address - pointer.address
            assert moved and moved % PAGE == 0 and other.pointers[name].offset == pointer.offset
        assert one.guards == other.guards


def test_mappings_lie_apart_in_the_window() -> None:
    workload = Workload(name="odd", sizes={"a": 5000, "b": 700})
    arena = arena_for(workload)
    layout = lay_out(arena, SIGNATURE, workload, random.Random(3))
    begins = []
    for pointer in layout.pointers.values():
        slot = arena.slots[pointer.slot]
        begin = pointer.address - (pointer.offset - slot.start)
        assert begin % PAGE == 0 and begin >= BEGIN and begin + slot.bytes <= BEGIN + BYTES
        begins.append((begin, begin + slot.bytes))
    begins.sort()
    assert all(after - end >= PAGE for (_, end), (after, _) in itertools.pairwise(begins))


def test_tensors_touch_an_end_of_their_slot() -> None:
    workload = Workload(name="odd", sizes={"a": 64, "b": 64})
    arena = arena_for(workload)
    rng = random.Random(1)
    for _ in range(10):
        pointer = lay_out(arena, SIGNATURE, workload, rng).pointers["x"]
        slot = arena.slots[pointer.slot]
        end = pointer.offset + pointer.bytes
        assert pointer.offset == slot.start or end == slot.start + slot.bytes


def test_only_outputs_may_be_written() -> None:
    workload = Workload(name="odd", sizes={"a": 5, "b": 7})
    layout = lay_out(arena_for(workload), SIGNATURE, workload, random.Random(1))
    assert {name for name, pointer in layout.pointers.items() if pointer.written} == {"out"}


def test_a_touched_guard_is_found_and_described() -> None:
    workload = Workload(name="odd", sizes={"a": 5, "b": 7})
    arena = arena_for(workload)
    layout = lay_out(arena, SIGNATURE, workload, random.Random(1))
    layout.set_guards()
    out = layout.pointers["out"]
    for place in (out.offset + out.bytes, out.offset + out.bytes + 700):
        slot = arena.slots[out.slot]
        place = place if place < slot.start + slot.bytes else out.offset - 3  # noqa: PLW2901
        arena.memory[place] = 0
        assert layout.broken_guard() == place
        distance = abs(place - out.offset)
        assert layout.neighbour(place).startswith(f"{distance} bytes ")
        layout.set_guards()
        assert layout.broken_guard() is None


def test_every_guard_byte_counts() -> None:
    """Also those before the first and behind the last whole word of a zone."""
    workload = Workload(name="odd", sizes={"a": 5, "b": 7})
    arena = arena_for(workload)
    for seed in range(4):
        layout = lay_out(arena, SIGNATURE, workload, random.Random(seed))
        layout.set_guards()
        for begin, end in layout.guards:
            for place in {*range(begin, min(end, begin + 20)), *range(max(begin, end - 20), end)}:
                arena.memory[place] ^= 1
                assert layout.broken_guard() == place
                arena.memory[place] ^= 1
        assert layout.broken_guard() is None


def test_arguments_come_in_calling_order() -> None:
    workload = Workload(name="odd", sizes={"a": 5, "b": 7})
    arena = arena_for(workload)
    layout = lay_out(arena, SIGNATURE, workload, random.Random(1))
    where = [layout.pointers[t.name] for t in SIGNATURE.tensors]
    assert list(layout.arguments(SIGNATURE, [])) == [*where, 5, 7]


def test_float64_views_need_no_more_than_the_arena() -> None:
    workload = Workload(name="odd", sizes={"a": 50, "b": 70})
    arena = arena_for(workload)
    tensors = [*SIGNATURE.input_tensors, *SIGNATURE.parameters]
    views = float64_views(arena, tensors, workload)
    assert [v.dtype for v in views] == [torch.float64, torch.bool, torch.int64]
