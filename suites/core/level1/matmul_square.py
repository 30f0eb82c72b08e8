import torch
import torch.nn as nn

n = 4096
SMALL = {"n": 37}


class Model(nn.Module):
    """Product of two square matrices."""

    def forward(self, a, b):
        return torch.matmul(a, b)


def get_inputs():
    return [torch.randn(n, n), torch.randn(n, n)]


def get_init_inputs():
    return []
