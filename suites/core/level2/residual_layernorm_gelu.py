import torch
import torch.nn as nn
import torch.nn.functional as F

batch = 12288
dim = 4096
SMALL = {"batch": 5, "dim": 203}


class Model(nn.Module):
    """Two outputs: x + residual, and GELU of its layer normalization."""

    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)

    def forward(self, x, residual):
        total = x + residual
        return total, F.gelu(self.norm(total))


def get_inputs():
    return [torch.randn(batch, dim), torch.randn(batch, dim)]


def get_init_inputs():
    return [dim]
