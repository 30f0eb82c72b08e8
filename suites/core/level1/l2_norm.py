import torch
import torch.nn as nn
import torch.nn.functional as F

batch = 49152
dim = 1536
SMALL = {"batch": 9, "dim": 211}


class Model(nn.Module):
    """Scales each row to unit Euclidean length."""

    def forward(self, x):
        return F.normalize(x, dim=-1)


def get_inputs():
    return [torch.randn(batch, dim)]


def get_init_inputs():
    return []
