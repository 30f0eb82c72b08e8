"""Parts of large workloads: which indices they have, and how they divide."""

from random import Random

import torch

from kernelblaster.judge.boxes import drawn_box, places_of, rows_box, whole_box, written_box
from kernelblaster.records import Signature, Size, Tensor, Workload

OUT = Tensor(name="out", dtype="float32", role="output", dims=("rows", "cols"))
SIGNATURE = Signature(
    outputs=(OUT,),
    inputs=(Tensor(name="x", dtype="float32", role="input", dims=("rows", "cols")),),
    parameters=(),
    sizes=(Size(name="rows", kind="free"), Size(name="cols", kind="free")),
)
LARGE = Workload(name="primary", sizes={"rows": 1 << 20, "cols": 512})


def test_the_first_and_the_last_index_are_in_every_box() -> None:
    for seed in range(5):
        box = drawn_box(SIGNATURE, LARGE, ("rows",), Random(seed))
        rows = box.chosen["rows"].tolist()
        assert rows[0] == 0 and rows[-1] == (1 << 20) - 1 and rows == sorted(set(rows))
        assert box.part.sizes == {"rows": len(rows), "cols": 512}


def test_slabs_are_equal_parts_of_the_largest_size() -> None:
    box = drawn_box(SIGNATURE, LARGE, ("rows",), Random(0))
    slabs = box.slabs(7)
    assert len(slabs) == 7 and len({len(slab.chosen["rows"]) for slab in slabs}) == 1
    together = torch.cat([slab.chosen["rows"] for slab in slabs]).tolist()
    assert together == box.chosen["rows"].tolist()[: len(together)]
    assert len(box.with_at_most(3).chosen["rows"]) == 3


def test_without_independent_sizes_the_box_is_all() -> None:
    box = drawn_box(SIGNATURE, LARGE, (), Random(0))
    assert box == whole_box(LARGE) and box.part.sizes == LARGE.sizes and box.slabs(9) == [box]


def test_the_neighbourhood_of_what_was_written() -> None:
    places = places_of(OUT, LARGE, ("rows",), torch.tensor([512 * 1000 + 3, 512 * 7777]))
    assert places == [{"rows": 1000}, {"rows": 7777}]
    rows = written_box(SIGNATURE, LARGE, ("rows",), places).chosen["rows"].tolist()
    assert {1000, 7777} <= set(rows) and len(rows) < 400


def test_pieces_are_drawn_from_the_rows_that_may_be_taken() -> None:
    rows = torch.arange(0, 1 << 20, 3)
    box = drawn_box(SIGNATURE, LARGE, ("rows",), Random(0))
    drawn = [rows_box(SIGNATURE, box, rows, 5, Random(seed)) for seed in range(4)]
    for one in drawn:
        chosen = one.chosen["rows"]
        assert bool(torch.isin(chosen, rows).all()) and bool((chosen.diff() > 0).all())
        slabs = one.slabs(5)
        assert len(slabs) == 5 and len(chosen) == sum(len(slab.chosen["rows"]) for slab in slabs)
        assert all(bool((slab.chosen["rows"].diff() == 3).all()) for slab in slabs)  # neighbours in `rows`
        assert (one.split, one.workload) == (box.split, LARGE)
    assert len({tuple(one.chosen["rows"].tolist()) for one in drawn}) == 4


def test_few_rows_make_fewer_pieces() -> None:
    box = drawn_box(SIGNATURE, LARGE, ("rows",), Random(0))
    three = torch.tensor([5, 8, 900])
    assert rows_box(SIGNATURE, box, three, 30, Random(0)).chosen["rows"].tolist() == [5, 8, 900]
    assert rows_box(SIGNATURE, box, three[:0], 30, Random(0)) is box
    whole = whole_box(LARGE)
    assert rows_box(SIGNATURE, whole, three, 30, Random(0)) is whole


def test_long_rows_make_fewer_pieces() -> None:
    """What a box reads is bounded: a row of an input may be as large as many others together."""
    long = Workload(name="primary", sizes={"rows": 4096, "cols": 1 << 20})
    box = drawn_box(SIGNATURE, long, ("rows",), Random(0))
    taken = rows_box(SIGNATURE, box, torch.arange(4096), 30, Random(0)).chosen["rows"]
    assert 1 <= len(taken) <= 8
