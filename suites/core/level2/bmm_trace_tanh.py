import torch
import torch.nn as nn

batch = 192
n = 448
SMALL = {"batch": 5, "n": 37}


class Model(nn.Module):
    """Trace of each product of two matrices, divided by their size, tanh.

    Only the diagonals of the products are needed.
    """

    def forward(self, a, b):
        diagonal = torch.diagonal(torch.bmm(a, b), dim1=-2, dim2=-1)
        return torch.tanh(diagonal.sum(dim=-1) / a.shape[-1])


def get_inputs():
    return [torch.randn(batch, n, n), torch.randn(batch, n, n)]


def get_init_inputs():
    return []
