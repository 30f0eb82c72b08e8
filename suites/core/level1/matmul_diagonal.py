import torch
import torch.nn as nn

m = 4096
n = 5120
SMALL = {"m": 45, "n": 67}


class Model(nn.Module):
    """Product of a diagonal matrix, given as a vector, and a full one."""

    def forward(self, d, b):
        return torch.matmul(torch.diag(d), b)


def get_inputs():
    return [torch.randn(m), torch.randn(m, n)]


def get_init_inputs():
    return []
