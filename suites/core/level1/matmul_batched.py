import torch
import torch.nn as nn

batch = 160
m = 512
k = 768
n = 384
SMALL = {"batch": 3, "m": 19, "k": 27, "n": 21}


class Model(nn.Module):
    """One matrix product for each element of a batch."""

    def forward(self, a, b):
        return torch.bmm(a, b)


def get_inputs():
    return [torch.randn(batch, m, k), torch.randn(batch, k, n)]


def get_init_inputs():
    return []
