import pytest
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from kernelblaster.judge.terms import LongestSum

X = torch.randn(6, 8, 10)
IMAGE = torch.randn(2, 4, 5, 7)


@pytest.mark.parametrize(
    ("run", "terms"),
    [
        (lambda: X + 1, 1),
        (X.amax, 1),
        (X.sum, 480),
        (lambda: X.mean(dim=(0, 1)), 48),
        (lambda: torch.linalg.vector_norm(X, dim=-1), 10),
        (lambda: torch.var_mean(X, dim=1), 8),
        (lambda: X.softmax(1), 8),
        (lambda: X.cumsum(0), 6),
        (lambda: X @ X.mT, 10),
        (lambda: F.linear(X, torch.randn(3, 10), torch.randn(3)), 10),
        (lambda: F.layer_norm(X, (8, 10)), 80),
        (lambda: F.group_norm(IMAGE, 2), 70),
        (lambda: F.batch_norm(IMAGE, None, None, training=True), 70),
        (lambda: F.conv2d(IMAGE, torch.randn(6, 2, 3, 3), groups=2), 18),
        (lambda: F.conv_transpose2d(IMAGE, torch.randn(4, 6, 3, 3)), 36),
        (lambda: F.scaled_dot_product_attention(IMAGE, IMAGE, IMAGE), 5),
        (lambda: F.mse_loss(X, X + 1), 480),
        (lambda: torch.nn.LSTM(10, 20)(X.double().float()), 20),
    ],
)
def test_the_longest_sum(run, terms: int) -> None:  # type: ignore[no-untyped-def]
    fused = sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.MATH])
    with torch.no_grad(), torch.backends.mkldnn.flags(enabled=False), fused, LongestSum() as longest:
        run()
    assert longest.terms == terms
