import torch
from torch import nn

n = 1536
m = 3072
d = 96
SMALL = {"n": 5, "m": 7, "d": 33}


class Model(nn.Module):
    """Laplacian kernel: how alike the rows of two matrices are, by sums of absolute differences."""

    def forward(self, x, y):
        return torch.exp(-0.05 * torch.cdist(x, y, p=1.0))


def get_inputs():
    return [torch.randn(n, d), torch.randn(m, d)]


def get_init_inputs():
    return []
