import torch
import torch.nn as nn

batch = 8192
dim = 6144
SMALL = {"batch": 5, "dim": 207}


class Model(nn.Module):
    """Running mean of x along each row, weighted by sigmoid(gate)."""

    def __init__(self, eps):
        super().__init__()
        self.eps = eps

    def forward(self, x, gate):
        weight = torch.sigmoid(gate)
        return torch.cumsum(weight * x, dim=-1) / (torch.cumsum(weight, dim=-1) + self.eps)


def get_inputs():
    return [torch.randn(batch, dim), torch.randn(batch, dim)]


def get_init_inputs():
    return [1e-5]
