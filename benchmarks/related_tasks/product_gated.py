import torch
from torch import nn

m = 1024
k = 768
n = 1024
SMALL = {"m": 5, "k": 33, "n": 17}


class Model(nn.Module):
    """A matrix product, gated by the sigmoid of another one."""

    def forward(self, x, w, v):
        return (x @ w) * torch.sigmoid(x @ v)


def get_inputs():
    return [torch.randn(m, k), torch.randn(k, n), torch.randn(k, n)]


def get_init_inputs():
    return []
