import torch
import torch.nn as nn

batch = 8192
dim = 8192
SMALL = {"batch": 6, "dim": 217}


class Model(nn.Module):
    """alpha * x + y with a Python float alpha."""

    def forward(self, x, y, alpha):
        return alpha * x + y


def get_inputs():
    return [torch.randn(batch, dim), torch.randn(batch, dim), 0.75]


def get_init_inputs():
    return []
