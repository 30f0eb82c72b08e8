import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelblaster.records import Tensor, Workload
from kernelblaster.tasks.arrangements import SAFE
from kernelblaster.tasks.domain import DISTRIBUTIONS
from kernelblaster.tasks.values import fill, perturb, pool_from_distribution, pool_of, shuffle

TENSOR = Tensor(name="x", role="input", dtype="float32", dims=("a",))
WORKLOAD = Workload(name="primary", sizes={"a": 1000, "classes": 10})
CPU = torch.device("cpu")


@given(
    st.sampled_from(sorted(SAFE)),
    st.integers(1, 3000),
    st.integers(0, 2**40),
)
@settings(max_examples=60)
def test_bounded_values_stay_in_their_domain(distribution: str, count: int, seed: int) -> None:
    pool = pool_of(torch.rand(1000), TENSOR, WORKLOAD)
    target = torch.full((count,), -1.0)
    fill(target, pool, distribution, WORKLOAD, seed)  # type: ignore[arg-type]
    assert bool(((target >= 0) & (target < 1)).all())


def test_the_same_seed_gives_the_same_values_in_any_type() -> None:
    pool = pool_of(torch.randn(5000), TENSOR, WORKLOAD)
    narrow, wide = torch.empty(777), torch.empty(777, dtype=torch.float64)
    for distribution in ("written", "scaled", "shifted", "ramp", "spiky"):
        fill(narrow, pool, distribution, WORKLOAD, 5)  # type: ignore[arg-type]
        fill(wide, pool, distribution, WORKLOAD, 5)  # type: ignore[arg-type]
        assert torch.equal(narrow.double(), wide)


def test_indices_follow_the_size_that_bounds_them() -> None:
    labels = Tensor(name="target", role="input", dtype="int64", dims=("a",))
    pool = pool_of(torch.randint(0, 10, (1000,)), labels, WORKLOAD)
    assert pool.bound == "classes"
    target = torch.empty(500, dtype=torch.int64)
    fill(target, pool, "written", Workload(name="odd", sizes={"a": 500, "classes": 3}), 1)
    assert int(target.max()) == 2


def test_indices_into_a_dimension_as_long_as_they_are() -> None:
    """`x[order]` with one index for each row: no other size may be what they are below."""
    order = Tensor(name="order", role="input", dtype="int64", dims=("a",))
    pool = pool_of(torch.randperm(1000), order, WORKLOAD)
    assert pool.bound == "a" and pool.capped
    for rows, below in ((3, 3), (1000, 1000), (5000, 1000)):  # they may have been classes after all
        for kind in ("written", "vast-scale", "sorted"):
            target = torch.empty(rows, dtype=torch.int64)
            fill(target, pool, kind, Workload(name="odd", sizes={"a": rows, "classes": 3}), 1)  # type: ignore[arg-type]
            assert int(target.min()) >= 0 and int(target.max()) < below


def test_triangles_stay_triangles() -> None:
    pool = pool_of(torch.randn(32, 32).tril(), TENSOR, WORKLOAD)
    target = torch.empty(16, 16)
    fill(target, pool, "scaled", WORKLOAD, 3)
    assert torch.equal(target, target.tril()) and bool((target.diagonal() != 0).all())


def test_perturbed_variances_stay_positive() -> None:
    variances = torch.rand(100) + 0.01
    target = torch.empty(100)
    perturb(target, variances, seed=1, strength=4.0)
    assert bool((target > 0).all()) and not torch.equal(target, variances)


def test_zero_parameters_are_moved_too() -> None:
    target = torch.empty(100)
    perturb(target, torch.zeros(100), seed=1)
    assert float(target.std()) > 0.01


def test_declared_distributions() -> None:
    assert float(pool_from_distribution("positive", torch.float32, CPU).values[0]) >= 0.1
    bounded = pool_from_distribution("below classes", torch.int64, CPU)
    assert bounded.bound == "classes"


@given(st.sampled_from(DISTRIBUTIONS), st.integers(1, 60), st.integers(1, 40), st.integers(0, 2**40))
@settings(max_examples=120)
def test_pieces_do_not_show(distribution: str, rows: int, cols: int, seed: int) -> None:
    """In any storage type, and the structure of a row does not depend on where a piece begins."""
    pool = pool_of(torch.randn(3000), TENSOR, WORKLOAD)
    narrow, wide = torch.empty(rows, cols), torch.empty(rows, cols, dtype=torch.float64)
    fill(narrow, pool, distribution, WORKLOAD, seed)  # type: ignore[arg-type]
    fill(wide, pool, distribution, WORKLOAD, seed)  # type: ignore[arg-type]
    assert torch.equal(narrow.double().nan_to_num(nan=7.0), wide.nan_to_num(nan=7.0))


def test_structure_within_rows() -> None:
    pool = pool_of(torch.randn(3000), TENSOR, WORKLOAD)
    target = torch.empty(50, 64)
    fill(target, pool, "one-hot", WORKLOAD, 3)
    assert int((target != 0).sum()) in (50, 64)
    fill(target, pool, "zero-rows", WORKLOAD, 3)
    zero = target == 0
    assert bool(zero.all(0).any()) or bool(zero.all(1).any())
    fill(target, pool, "rising", WORKLOAD, 3)
    assert float(target[0].abs().mean()) * 8 < float(target[-1].abs().mean())
    fill(target, pool, "nan", WORKLOAD, 3)
    assert 1 <= int(target.isnan().sum()) <= 3 * 64  # up to three places, or whole rows


def test_extreme_indices_and_masks() -> None:
    labels = Tensor(name="target", role="input", dtype="int64", dims=("a",))
    pool = pool_of(torch.randint(0, 10, (1000,)), labels, WORKLOAD)
    target = torch.empty(40, dtype=torch.int64)
    fill(target, pool, "end", WORKLOAD, 1)
    assert set(target.tolist()) == {0, 9}
    fill(target, pool, "sorted", WORKLOAD, 1)
    assert set(target.tolist()) == set(range(10))
    mask = pool_of(torch.rand(100) > 0.5, labels, WORKLOAD)
    flags = torch.empty(40, dtype=torch.bool)
    fill(flags, mask, "zeros", WORKLOAD, 1)
    assert not bool(flags.any())


def test_whole_numbers_are_shuffled_not_changed() -> None:
    target, original = torch.empty(9, dtype=torch.int64), torch.arange(9)
    shuffle(target, original, 4)
    assert not torch.equal(target, original) and torch.equal(target.sort().values, original)
