import torch
import torch.nn as nn

rows = 16384
cols = 7680
SMALL = {"rows": 37, "cols": 145}


class Model(nn.Module):
    """Sum over every element, one number."""

    def forward(self, x):
        return x.sum()


def get_inputs():
    # A scale drawn once: without it the sum would hardly depend on the seed.
    return [torch.rand(rows, cols) * (0.5 + torch.rand(1))]


def get_init_inputs():
    return []
