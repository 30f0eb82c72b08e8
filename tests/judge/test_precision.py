import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelblaster.judge import precision
from kernelblaster.judge.case import Case
from kernelblaster.judge.precision import (
    FEWEST,
    MOST,
    NARROW,
    bound,
    compare,
    compare_all,
    exceeded,
    roundings,
)
from kernelblaster.judge.truth import scattered
from kernelblaster.records import Tensor, Workload
from kernelblaster.records.evaluation import Errors
from kernelblaster.tasks.values import Distribution, fill, pool_of

Product = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def test_equal_tensors_have_no_error() -> None:
    x = torch.randn(1000)
    errors = compare(x, x.double()).errors
    assert errors is not None and max(errors.model_dump().values()) == 0


def test_the_worst_element_is_named() -> None:
    truth = torch.randn(5000, dtype=torch.float64)
    output = truth.float()
    output[1234] += 3
    found = compare(output, truth)
    assert found.index == 1234
    assert math.isclose(found.got - found.expected, 3, rel_tol=1e-5)


def test_a_small_corner_is_seen_by_its_tile() -> None:
    truth = torch.ones(4096, dtype=torch.float64)
    truth[256:512] = 1e-9
    output = truth.float()
    output[256:512] = 0
    errors = compare(output, truth).errors
    assert errors is not None
    assert errors.rms < 1e-8 and errors.tile == pytest.approx(1.0)
    assert errors.lost == pytest.approx(256 / 4096)


@given(st.integers(1, 2000), st.floats(1e-8, 1e-1), st.integers(0, 1000))
@settings(max_examples=50)
def test_against_plain_numpy(count: int, noise: float, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    truth = torch.randn(count, generator=generator, dtype=torch.float64)
    output = (truth + noise * torch.randn(count, generator=generator, dtype=torch.float64)).float()
    errors = compare(output, truth).errors
    assert errors is not None
    e, r = (output.double() - truth).numpy(), truth.numpy()
    scale = (r**2).mean() ** 0.5
    assert errors.rms == pytest.approx((e**2).mean() ** 0.5 / scale)
    assert errors.worst == pytest.approx(abs(e).max() / scale)


def test_values_that_are_not_finite() -> None:
    truth = torch.tensor([1.0, math.inf, -math.inf, math.nan], dtype=torch.float64)
    assert compare(truth.float(), truth).errors is not None
    for position, value in ((0, math.nan), (1, 1.0), (2, math.inf), (3, 0.0)):
        output = truth.float()
        output[position] = value
        found = compare(output, truth)
        assert found.errors is None and found.index == position


def test_overflow_of_the_output_type_is_not_an_error() -> None:
    truth = torch.tensor([1e6, 2.0], dtype=torch.float64)
    assert compare(truth.half(), truth).errors is not None


def test_whole_numbers_must_be_equal() -> None:
    truth = torch.arange(100)
    output = truth.clone()
    output[7] = 0
    errors = compare(output, truth).errors
    assert errors is not None and errors.rms == 0.01
    exact = compare(truth, truth).errors
    assert exceeded(errors, bound(exact, None, torch.int64, 100)) is not None


def test_bounds_grow_with_the_baseline_and_never_vanish() -> None:
    truth = torch.randn(10_000, dtype=torch.float64)
    exact = compare(truth.float(), truth).errors
    coarse = compare(truth.bfloat16().float(), truth).errors
    assert exact is not None and coarse is not None
    tight, loose = (bound(e, None, torch.float32, 10_000) for e in (exact, coarse))
    assert tight.rms >= 2**-24
    assert exceeded(coarse, tight) is not None
    assert exceeded(coarse, loose) is None


def left_to_right(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    out = torch.zeros(a.shape[0], b.shape[1])
    for k in range(a.shape[1]):
        out = out + a[:, k, None] * b[k]
    return out


def tf32(x: torch.Tensor) -> torch.Tensor:
    return ((x.view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32)


def bfloat16(x: torch.Tensor) -> torch.Tensor:
    return x.bfloat16().float()


def half(x: torch.Tensor) -> torch.Tensor:
    return x.half().float()


def scaled_half(x: torch.Tensor) -> torch.Tensor:
    """With the largest element of all near the upper end of the halves' range."""
    scale = 2.0 ** (15 - math.ceil(math.log2(float(x.abs().max()) + 1e-30)))
    return half(x * scale) / scale


def split(narrow: Callable[[torch.Tensor], torch.Tensor], terms: int, pairs: str) -> Product:
    """A product on tensor cores of operands in several terms: sums of 16 are exact, then rounded."""

    def parts(x: torch.Tensor) -> list[torch.Tensor]:
        found = []
        for _ in range(terms):
            found.append(narrow(x))
            x = x - found[-1]
        return [part.double() for part in found]

    def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        left, right = parts(a), parts(b)
        out = torch.zeros(a.shape[0], b.shape[1])
        for start in range(0, a.shape[1], 16):
            for pair in pairs.split():
                i, j = int(pair[0]), int(pair[1])
                tile = left[i][:, start : start + 16] @ right[j][start : start + 16]
                out = (out.double() + tile).float()
        return out

    return product


def values(shape: tuple[int, int], kind: Distribution, seed: int) -> torch.Tensor:
    """As the judge draws them. `ramp` rises along the inner axis of a right factor: sums rise and cancel."""
    tensor = Tensor(name="x", role="input", dtype="float32", dims=("m", "n"))
    workload = Workload(name="primary", sizes=dict(zip("mn", shape, strict=True)))
    pool = pool_of(torch.randn(1 << 16, generator=torch.Generator().manual_seed(0)), tensor, workload)
    target = torch.empty(shape)
    fill(target, pool, kind, workload, seed)
    return target


def verdict(product: Product, inner: int, kind: Distribution) -> str | None:
    """What the judge says about a product of 64 rows and 48 columns."""
    a, b = values((64, inner), kind, 1), values((inner, 48), kind, 2)
    truth = a.double() @ b.double()
    unit = 2.0**-24
    shaken = (a.double() * (1 + unit * scattered(a.double(), 3))) @ (
        b.double() * (1 + unit * scattered(b.double(), 3))
    )
    own = a @ b
    theirs, moved = compare(own, truth).errors, compare(shaken, truth).errors
    errors = compare(product(a, b), truth, own).errors
    assert errors is not None
    return exceeded(errors, bound(theirs, moved, torch.float32, truth.numel(), inner))


HONEST: dict[str, Product] = {
    "left to right": left_to_right,
    "right to left": lambda a, b: left_to_right(a.flip(1), b.flip(0)),
    "blocks": lambda a, b: sum(
        (a[:, s : s + 256] @ b[s : s + 256] for s in range(0, a.shape[1], 256)), torch.zeros(1)
    ),
    "float64": lambda a, b: (a.double() @ b.double()).float(),
    "three products of TF32": split(tf32, 2, "10 01 00"),
    "three products of halves": split(scaled_half, 2, "10 01 00"),
    "six products of bfloat16": split(bfloat16, 3, "20 02 11 10 01 00"),
}
DISHONEST: dict[str, Product] = {
    "TF32": split(tf32, 1, "00"),
    "bfloat16": split(bfloat16, 1, "00"),
    "half": split(half, 1, "00"),
    "two of three products of TF32": split(tf32, 2, "01 00"),
    "half accumulator": lambda a, b: half(half(a[:, ::2] @ b[::2]) + half(a[:, 1::2] @ b[1::2])),
    "bfloat16 output": lambda a, b: bfloat16(a @ b),
    "last term dropped": lambda a, b: a[:, :-1] @ b[:-1],
    "a thousandth dropped": lambda a, b: a @ b - a[:, 37::1000] @ b[37::1000],
}


@pytest.mark.parametrize("kind", ["written", "ramp", "spiky"])
@pytest.mark.parametrize("inner", [45, 300, 4096])
@pytest.mark.parametrize("name", HONEST)
def test_honest_products_pass(name: str, inner: int, kind: Distribution) -> None:
    assert verdict(HONEST[name], inner, kind) is None


@pytest.mark.parametrize("kind", ["written", "ramp", "spiky"])
@pytest.mark.parametrize("inner", [45, 300, 4096])
@pytest.mark.parametrize("name", DISHONEST)
def test_dishonest_products_fail(name: str, inner: int, kind: Distribution) -> None:
    assert verdict(DISHONEST[name], inner, kind) is not None


def test_two_bfloat16_terms_fail_where_sums_are_short() -> None:
    """Sixteen bits: over thousands of terms, adding up in float32 costs as much."""
    assert verdict(split(bfloat16, 2, "10 01 00"), 45, "written") is not None
    assert verdict(split(bfloat16, 2, "10 01 00"), 4096, "written") is None


def test_tf32_passes_where_pytorch_uses_it_and_bfloat16_does_not() -> None:
    a, b = values((64, 300), "written", 1), values((300, 48), "written", 2)
    truth = a.double() @ b.double()
    own = split(tf32, 1, "00")(a, b)
    allowed = bound(compare(own, truth).errors, None, torch.float32, truth.numel(), 300)

    def cut(x: torch.Tensor) -> torch.Tensor:
        return (x.view(torch.int32) & ~0x1FFF).view(torch.float32)

    for narrow, passes in ((tf32, True), (cut, True), (half, True), (bfloat16, False)):
        errors = compare(split(narrow, 1, "00")(a, b), truth, own).errors
        assert errors is not None and (exceeded(errors, allowed) is None) == passes


@pytest.mark.parametrize("shift", [0.0, 1.0])
def test_long_sums_term_after_term_pass(shift: float) -> None:
    x = torch.randn(64, 50_000, generator=torch.Generator().manual_seed(4)) + shift
    truth = x.double().sum(1)
    moved = compare((x.double() * (1 + 2.0**-24 * scattered(x.double(), 5))).sum(1), truth).errors
    allowed = bound(compare(x.sum(1), truth).errors, moved, torch.float32, 64, 50_000)
    one_by_one = torch.from_numpy(x.numpy().cumsum(axis=1, dtype="float32")[:, -1].copy())
    errors = compare(one_by_one, truth, x.sum(1)).errors
    assert errors is not None and exceeded(errors, allowed) is None
    short = compare(x[:, :-1].sum(1), truth, x.sum(1)).errors
    assert short is not None and exceeded(short, allowed) is not None


def test_an_element_that_pytorch_does_not_know_is_not_lost() -> None:
    truth = torch.ones(100_000, dtype=torch.float64)
    truth[:50] = 1e-9  # a sum that cancels
    output = truth.float()
    output[:50] = 3e-9
    own = truth.float()
    plain, excused = compare(output, truth, own).errors, None
    own[:50] = 2e-9
    excused = compare(output, truth, own).errors
    assert plain is not None and excused is not None
    assert plain.lost == pytest.approx(50 / 100_000) and excused.lost == 0


def test_a_mean_some_roundings_off_may_lose_elements_near_it() -> None:
    """Rows of almost equal values: an element that differs from the mean by a rounding or two."""
    own = Errors(rms=1e-7, worst=1e-6, tile=1e-7, relative=1e-7, lost=3e-4)
    moved = own.model_copy(update={"lost": 2e-4})
    allowed = bound(own, moved, torch.float32, 1 << 22, 1024)
    assert 6.3 * 3e-4 < allowed.lost < 5e-3  # that of sums in turn, by 32 lanes; not that of sums in TF32


def test_roundings_grow_with_the_terms_within_limits() -> None:
    assert roundings(1, torch.float32) == roundings(256, torch.float32) == FEWEST
    assert roundings(1024, torch.float32) == 64
    assert roundings(10**9, torch.float32) == MOST
    assert roundings(10**9, torch.bfloat16) == NARROW


def test_whole_numbers_are_not_excused_by_roundings() -> None:
    exact = compare(torch.arange(100), torch.arange(100)).errors
    assert exact is not None
    assert max(bound(exact, exact, torch.int64, 100, 10_000).model_dump().values()) == 0


def test_steps_in_very_long_lines_have_wider_bounds() -> None:
    tensor = Tensor(name="out", role="output", dtype="float32", dims=("m", "n"))
    for count, factor in ((1 << 15, 1.0), (1 << 16, 2.0), (1 << 17, 4.0)):
        workload = Workload(name="primary", sizes={"m": 3, "n": count})
        assert Case(workload, "step").lenience(tensor) == factor
        assert Case(workload, "written").lenience(tensor) == 1.0


@pytest.mark.parametrize("piece", [1 << 24, 700])
def test_several_outputs_are_compared_as_each_alone(monkeypatch: pytest.MonkeyPatch, piece: int) -> None:
    monkeypatch.setattr(precision, "PIECE", piece)
    generator = torch.Generator().manual_seed(3)
    truth = torch.randn(3000, dtype=torch.float64, generator=generator)
    truth[17] = math.inf
    near, far, strange = truth.float(), truth.float(), truth.float()
    far[1999] += 2
    far[5] = -far[5]
    strange[2500] = -math.inf
    found = compare_all([near, far, strange], truth, [None, near, near])
    assert found == [compare(near, truth), compare(far, truth, near), compare(strange, truth, near)]
    assert found[0].errors is not None and found[0].errors.worst < 1e-6
    assert found[1].errors is not None and found[1].errors.lost == 2 / 3000
    assert found[2].errors is None and found[2].index == 2500
