import torch
from torch import nn

rows = 6144
cols = 3072
SMALL = {"rows": 5, "cols": 301}


class Model(nn.Module):
    """Sum of gated elements from each position to the end of its row."""

    def forward(self, x, gate):
        return torch.flip(torch.cumsum(torch.flip(x * gate, (-1,)), dim=-1), (-1,))


def get_inputs():
    return [torch.randn(rows, cols), torch.rand(rows, cols)]


def get_init_inputs():
    return []
