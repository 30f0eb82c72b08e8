import torch
import torch.nn as nn

batch = 96
rows = 512
cols = 2560
SMALL = {"batch": 3, "rows": 41, "cols": 29}


class Model(nn.Module):
    """Row number (int64) of the largest value of each column; the first one on a tie."""

    def forward(self, x):
        return torch.argmax(x, dim=1)


def get_inputs():
    return [torch.randn(batch, rows, cols)]


def get_init_inputs():
    return []
