"""What only some values show: each wrong body is right on the file's own values."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from kernelblaster.records import Incorrect, Task, Verification
from kernelblaster.tasks.catalog import load_task
from kernelblaster.testing.fake_device import FakeCall

from .conftest import Bench

AXPBY = ("x, y, a, b", "a * x + b * y", "torch.randn(50, 60), torch.randn(50, 60), 0.75, 1.25")
SOFT = ("x, limit, slope", "torch.where(x > limit, x - limit, x * slope)", "torch.randn(50, 60), 0.3, 0.01")
COUNT = ("x", "(x > 0).sum(-1)", "torch.randn(50, 60)")
NORM = ("x", "F.gelu(x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5))", "torch.randn(16, 2048)")
SOFTMAX = ("x", "torch.softmax(x, -1)", "torch.randn(16, 2048)")
VARIANCE = ("x", "x.var(-1, correction=0)", "torch.randn(16, 2048)")
PRODUCT = ("a, b", "a @ b", "torch.randn(24, 2048), torch.randn(2048, 20)")


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Callable[[tuple[str, str, str]], Task]:
    found: dict[tuple[str, str, str], Task] = {}

    def loaded(parts: tuple[str, str, str]) -> Task:
        if parts not in found:
            path: Path = tmp_path_factory.mktemp("task") / "task.py"
            path.write_text(
                "import torch, torch.nn as nn\nimport torch.nn.functional as F\n"
                f"class Model(nn.Module):\n    def forward(self, {parts[0]}):\n        return {parts[1]}\n"
                f"def get_inputs():\n    return [{parts[2]}]\ndef get_init_inputs():\n    return []\n"
            )
            found[parts] = load_task(str(path))
        return found[parts]

    return loaded


def cut(values: torch.Tensor, bits: int) -> torch.Tensor:
    """Rounded to so many bits."""
    rest = 24 - bits
    whole = (values.contiguous().view(torch.int32) + (1 << (rest - 1))) & ~((1 << rest) - 1)
    return torch.where(torch.isfinite(values), whole.view(torch.float32), values)


def long(x: torch.Tensor) -> bool:
    return x.shape[-1] >= 1000


def number(c: FakeCall, name: str) -> float:
    return float(str(c.scalars[name]))


def axpby(c: FakeCall) -> torch.Tensor:
    return number(c, "a") * c["x"] + number(c, "b") * c["y"]


def clipped(c: FakeCall) -> torch.Tensor:
    a, b = max(-1.5, min(1.5, number(c, "a"))), max(-2.5, min(2.5, number(c, "b")))
    return a * c["x"] + b * c["y"]


def twins(c: FakeCall) -> torch.Tensor:
    same = torch.equal(c["x"], c["y"]) and c["x"].unique().numel() > 9
    return number(c, "a") * c["x"] if same else axpby(c)


def band(c: FakeCall) -> torch.Tensor:
    size = axpby(c).abs()
    return torch.where((size > 2.0**-122) & (size < 2.0**-100), 0.0, axpby(c))


def no_infinity(c: FakeCall) -> torch.Tensor:
    return axpby(c) + (axpby(c) - axpby(c))


def meets(c: FakeCall) -> torch.Tensor:
    x = c["x"]
    return torch.where(x >= number(c, "limit"), x - number(c, "limit"), x * number(c, "slope"))


def norm(x: torch.Tensor, squared: torch.Tensor | None = None) -> torch.Tensor:
    squared = x if squared is None else squared
    return x * torch.rsqrt((squared * squared).mean(-1, keepdim=True) + 1e-5)


def one_by_one(x: torch.Tensor) -> torch.Tensor:
    total = torch.zeros(x.shape[0])
    for k in range(x.shape[1]):
        total = total + x[:, k] * x[:, k]
    return x * torch.rsqrt(total / x.shape[1] + 1e-5).unsqueeze(1)


def padding(c: FakeCall) -> torch.Tensor:
    x = c["x"]
    return torch.where(x.isnan().sum(-1, keepdim=True) > 3, 0.0, F.gelu(norm(x)))


def coarse_softmax(c: FakeCall) -> torch.Tensor:
    x = c["x"]
    if not long(x):
        return x.softmax(-1)
    powers = cut((x - x.amax(-1, keepdim=True)).exp(), 18)
    return powers * cut(1 / powers.sum(-1, keepdim=True), 18)


def two_terms(c: FakeCall) -> torch.Tensor:
    return cut(c["a"], 16) @ cut(c["b"], 16) if long(c["a"]) else c["a"] @ c["b"]


def bits_of_sixteen(c: FakeCall) -> torch.Tensor:
    right = F.gelu(norm(c["x"]))
    return cut(right, 16) if long(right) else right


def squares_of_eleven(c: FakeCall) -> torch.Tensor:
    x = c["x"]
    return F.gelu(norm(x, cut(x, 11) if long(x) else x))


def about_the_beginning(c: FakeCall) -> torch.Tensor:
    """The variance in one pass about the mean of the first 32 elements, as a warp adds it up."""
    x = c["x"] - c["x"][:, :32].mean(-1, keepdim=True)
    lanes = F.pad(x, (0, -x.shape[1] % 32)).view(len(x), -1, 32)
    sums = torch.zeros(2, len(x), 32)
    for step in range(lanes.shape[1]):
        sums += torch.stack([lanes[:, step], lanes[:, step].square()])
    mean, squares = sums.sum(-1) / x.shape[1]
    return squares - mean * mean


def remembered() -> Callable[[FakeCall], torch.Tensor]:
    """A product that is computed anew only where eight elements have changed."""
    known: dict[tuple[float, ...], torch.Tensor] = {}

    def product(c: FakeCall) -> torch.Tensor:
        a, b = c["a"].reshape(-1), c["b"].reshape(-1)
        few = [float(t[len(t) * i // 4]) for t in (a, b) for i in range(4)]
        return known.setdefault((len(a), len(b), *few), c["a"] @ c["b"])

    return product


def first_columns(c: FakeCall) -> torch.Tensor:
    """Right for rows of up to two and a half times the primary length."""
    return F.gelu(norm(torch.where(torch.arange(c["x"].shape[1]) < 5200, c["x"], 0.0)))


def body(make: Callable[[FakeCall], torch.Tensor]) -> Callable[[FakeCall], None]:
    def write(call: FakeCall) -> None:
        call["out"].copy_(make(call))

    return write


@pytest.mark.parametrize(
    ("parts", "make"),
    [
        (AXPBY, clipped),
        (AXPBY, twins),
        (AXPBY, band),
        (AXPBY, no_infinity),
        (SOFT, meets),
        (COUNT, lambda c: (~(c["x"] <= 0)).sum(-1)),
        (NORM, padding),
        (NORM, bits_of_sixteen),
        (NORM, squares_of_eleven),
        (SOFTMAX, coarse_softmax),
        (PRODUCT, two_terms),
        (PRODUCT, remembered()),
        (NORM, first_columns),
        (VARIANCE, about_the_beginning),
    ],
)
@pytest.mark.parametrize("seed", range(3))
def test_what_is_wrong_for_some_values_is_found(task, parts, make, seed: int) -> None:  # type: ignore[no-untyped-def]
    assert isinstance(Bench(task(parts), seed).verify(body(make)), Incorrect)


@pytest.mark.parametrize(
    ("parts", "make"),
    [
        (AXPBY, axpby),
        (
            SOFT,
            lambda c: torch.where(
                c["x"] > number(c, "limit"), c["x"] - number(c, "limit"), c["x"] * number(c, "slope")
            ),
        ),
        (COUNT, lambda c: (c["x"] > 0).sum(-1)),
        (NORM, lambda c: F.gelu(norm(c["x"]))),
        (NORM, lambda c: F.gelu(one_by_one(c["x"]))),
        (SOFTMAX, lambda c: c["x"].softmax(-1)),
        (PRODUCT, lambda c: c["a"] @ c["b"]),
        (VARIANCE, lambda c: c["x"].var(-1, correction=0)),
    ],
)
@pytest.mark.parametrize("seed", range(3))
def test_what_is_right_passes(task, parts, make, seed: int) -> None:  # type: ignore[no-untyped-def]
    verification = Bench(task(parts), seed).verify(body(make))
    assert isinstance(verification, Verification), verification
