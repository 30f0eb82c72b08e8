import torch
import torch.nn as nn

m = 14336
k = 9216
SMALL = {"m": 51, "k": 205}


class Model(nn.Module):
    """Product of a matrix and a vector."""

    def forward(self, a, x):
        return torch.mv(a, x)


def get_inputs():
    return [torch.randn(m, k), torch.randn(k)]


def get_init_inputs():
    return []
