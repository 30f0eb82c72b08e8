import torch
from torch import nn

rows = 6144
cols = 3072
SMALL = {"rows": 5, "cols": 301}


class Model(nn.Module):
    """Softmax of each row after it was scaled by the inverse of its root mean square."""

    def forward(self, x):
        scaled = x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6)
        return torch.softmax(scaled, dim=-1)


def get_inputs():
    return [torch.randn(rows, cols)]


def get_init_inputs():
    return []
