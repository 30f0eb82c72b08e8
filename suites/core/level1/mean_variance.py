import torch
import torch.nn as nn

batch = 24576
dim = 5120
SMALL = {"batch": 7, "dim": 389}


class Model(nn.Module):
    """Two outputs: the mean of each row and its variance, divided by the count."""

    def forward(self, x):
        variance, mean = torch.var_mean(x, dim=-1, correction=0)
        return mean, variance


def get_inputs():
    return [torch.randn(batch, dim) + torch.randn(batch, 1)]


def get_init_inputs():
    return []
