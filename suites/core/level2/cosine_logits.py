import torch
import torch.nn as nn
import torch.nn.functional as F

rows = 4096
cols = 6144
dim = 1024
SMALL = {"rows": 27, "cols": 35, "dim": 49}


class Model(nn.Module):
    """Cosines between all pairs of rows of two matrices, scaled, log-softmax of each row."""

    def __init__(self, scale):
        super().__init__()
        self.scale = scale

    def forward(self, a, b):
        a = F.normalize(a, dim=-1)
        b = F.normalize(b, dim=-1)
        return torch.log_softmax(torch.matmul(a, b.T) * self.scale, dim=-1)


def get_inputs():
    return [torch.randn(rows, dim), torch.randn(cols, dim)]


def get_init_inputs():
    return [16.0]
