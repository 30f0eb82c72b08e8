import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelblaster.records import Tensor, Workload
from kernelblaster.tasks.arrangements import SAFE
from kernelblaster.tasks.values import fill, perturb, pool_from_distribution, pool_of

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
