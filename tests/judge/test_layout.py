import random

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelblaster.devices.device import Pointer
from kernelblaster.judge.layout import arena_bytes, float64_views, lay_out
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


@given(st.integers(1, 300), st.integers(1, 300), st.integers(0, 10**6))
@settings(max_examples=80)
def test_tensors_never_overlap_and_always_fit(a: int, b: int, seed: int) -> None:
    workload = Workload(name="odd", sizes={"a": a, "b": b})
    arena = torch.zeros(arena_bytes(SIGNATURE, workload), dtype=torch.uint8)
    layout = lay_out(arena, SIGNATURE, workload, random.Random(seed))
    layout.set_guards()
    for number, tensor in enumerate(SIGNATURE.tensors, 1):
        assert layout.offsets[tensor.name] % 256 == 0
        assert tuple(layout.view(tensor).shape) == workload.shape(tensor)
        layout.raw(tensor).fill_(number)
    for number, tensor in enumerate(SIGNATURE.tensors, 1):
        assert bool((layout.raw(tensor) == number).all())
    assert layout.broken_guard() is None


def test_layouts_differ_from_case_to_case() -> None:
    workload = Workload(name="odd", sizes={"a": 5, "b": 7})
    arena = torch.zeros(arena_bytes(SIGNATURE, workload), dtype=torch.uint8)
    rng = random.Random(1)
    places = {lay_out(arena, SIGNATURE, workload, rng).offsets["x"] for _ in range(20)}
    assert len(places) > 5


def test_a_touched_guard_is_found_and_described() -> None:
    workload = Workload(name="odd", sizes={"a": 5, "b": 7})
    arena = torch.zeros(arena_bytes(SIGNATURE, workload), dtype=torch.uint8)
    layout = lay_out(arena, SIGNATURE, workload, random.Random(1))
    layout.set_guards()
    place = layout.offsets["x"] - 3
    arena[place] = 0
    assert layout.broken_guard() == place
    assert layout.neighbour(place) == "3 bytes before the start of x"


def test_arguments_come_in_calling_order() -> None:
    workload = Workload(name="odd", sizes={"a": 5, "b": 7})
    arena = torch.zeros(arena_bytes(SIGNATURE, workload), dtype=torch.uint8)
    layout = lay_out(arena, SIGNATURE, workload, random.Random(1))
    where = [Pointer(layout.offsets[t.name], workload.bytes(t), t.name) for t in SIGNATURE.tensors]
    assert list(layout.arguments(SIGNATURE, [])) == [*where, 5, 7]


def test_float64_views_need_no_more_than_the_arena() -> None:
    workload = Workload(name="odd", sizes={"a": 50, "b": 70})
    arena = torch.zeros(arena_bytes(SIGNATURE, workload), dtype=torch.uint8)
    tensors = [*SIGNATURE.input_tensors, *SIGNATURE.parameters]
    views = float64_views(arena, tensors, workload)
    assert [v.dtype for v in views] == [torch.float64, torch.bool, torch.int64]
