"""Whether the arithmetics of the calibration compute what they say, apart from their precision."""

import arithmetic
import pytest
import torch
import torch.nn.functional as F
from arithmetic import VARIANTS, Variant
from interpreter import Interpreter

HONEST = {v.name: v for v in VARIANTS if v.kind == "honest"}
X = torch.randn(3, 4, 50, generator=torch.Generator().manual_seed(1))
IMAGE = X[..., :49].reshape(3, 4, 7, 7)


def weight(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(2))


RUNS = {
    "sum": lambda x, i: x.sum(1),
    "norm": lambda x, i: x / torch.linalg.vector_norm(x, dim=(0, 2), keepdim=True),
    "variance": lambda x, i: torch.var_mean(x, dim=-1)[0],
    "cumsum": lambda x, i: x.cumsum(1),
    "softmax": lambda x, i: x.softmax(1) + x.log_softmax(-1) + x.logsumexp(0),
    "product": lambda x, i: x @ x.mT,
    "linear": lambda x, i: F.linear(x, weight(6, 50).to(x.dtype), weight(6).to(x.dtype)),
    "attention": lambda x, i: F.scaled_dot_product_attention(i, i, i, is_causal=True),
    "norms": lambda x, i: F.layer_norm(x, (4, 50)) + F.batch_norm(x, None, None, training=True),
    "groups": lambda x, i: F.group_norm(i, 2, weight(4).to(i.dtype), weight(4).to(i.dtype)),
    "functions": lambda x, i: F.gelu(x) + F.silu(x) + F.elu(x) + x.exp() + x.tanh() + x.sigmoid(),
    "losses": lambda x, i: F.mse_loss(x, -x) + F.huber_loss(x, -x),
    "convolution": lambda x, i: F.conv2d(i, weight(6, 2, 3, 3).to(i.dtype), None, 2, 1, 2, groups=2),
    "transposed": lambda x, i: F.conv_transpose2d(
        i, weight(4, 3, 3, 4).to(i.dtype), weight(6).to(i.dtype), 2, 1, 1, groups=2
    ),
}


@pytest.mark.parametrize("run", RUNS)
def test_honest_variants_compute_the_same(run: str) -> None:
    truth = RUNS[run](X.double(), IMAGE.double())
    for name, variant in HONEST.items():
        with Interpreter(variant):
            found = RUNS[run](X.clone(), IMAGE.clone())
        assert found.shape == truth.shape, name
        assert torch.allclose(found.double(), truth, rtol=1e-5, atol=1e-5), name


def test_a_variant_is_used_where_it_differs() -> None:
    dropped = next(v for v in VARIANTS if v.name == "every thousandth term dropped")
    for length, used in ((999, False), (1000, True)):
        with Interpreter(dropped) as mode:
            torch.ones(2, length).sum(-1)
        assert mode.used == used
    with Interpreter(Variant("tanh", "honest", tanh=torch.tanh)) as mode:
        torch.ones(2).sum()
    assert not mode.used


def test_narrow_numbers() -> None:
    x = torch.randn(1000, generator=torch.Generator().manual_seed(3))
    for narrow, bits in ((arithmetic.to_tf32, 11), (arithmetic.to_bfloat16, 8), (arithmetic.to_half, 11)):
        error = ((narrow(x) - x).abs() / x.abs()).max()
        assert 2.0 ** -(bits + 2) < error <= 2.0**-bits
    cut = arithmetic.cut_to_tf32(x)
    assert bool((cut.abs() <= x.abs()).all()) and torch.equal(arithmetic.to_tf32(cut), cut)
    toward = arithmetic.to_zero(x.double() * (1 + 1e-9))
    assert torch.equal(toward, x)
