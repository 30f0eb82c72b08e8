import torch
import torch.nn as nn
import torch.nn.functional as F

batch = 4096
in_features = 3072
out_features = 4096
groups = 32
SMALL = {"batch": 7, "in_features": 41, "out_features": 160}


class Model(nn.Module):
    """Linear layer, group normalization of the features, clamp to plus or minus a limit."""

    def __init__(self, in_features, out_features, groups, limit):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)
        self.norm = nn.GroupNorm(groups, out_features)
        self.limit = limit

    def forward(self, x):
        return F.hardtanh(self.norm(self.linear(x)), -self.limit, self.limit)


def get_inputs():
    return [torch.randn(batch, in_features)]


def get_init_inputs():
    return [in_features, out_features, groups, 1.25]
