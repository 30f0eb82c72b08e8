import torch
from torch import nn

rows = 4096
cols = 4096
SMALL = {"rows": 5, "cols": 301}


class Model(nn.Module):
    """Running sum along each row over the elements that a mask keeps."""

    def forward(self, x, mask):
        return torch.cumsum(x * mask, dim=-1)


def get_inputs():
    return [torch.randn(rows, cols), torch.rand(rows, cols) < 0.6]


def get_init_inputs():
    return []
