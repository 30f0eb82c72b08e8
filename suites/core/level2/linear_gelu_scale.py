import torch
import torch.nn as nn
import torch.nn.functional as F

batch = 6144
in_features = 2048
out_features = 4096
SMALL = {"batch": 7, "in_features": 45, "out_features": 67}


class Model(nn.Module):
    """Linear layer, GELU, then a learned scale for each feature."""

    def __init__(self, in_features, out_features):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)
        self.scale = nn.Parameter(torch.rand(out_features) + 0.5)

    def forward(self, x):
        return F.gelu(self.linear(x)) * self.scale


def get_inputs():
    return [torch.randn(batch, in_features)]


def get_init_inputs():
    return [in_features, out_features]
