import torch
import torch.nn as nn
import torch.nn.functional as F

batch = 8192
in_features = 2048
out_features = 2304
SMALL = {"batch": 11, "in_features": 37, "out_features": 51}


class Model(nn.Module):
    """Linear layer, normalization with the statistics of the batch, Swish."""

    def __init__(self, in_features, out_features):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features, bias=False)
        self.norm = nn.BatchNorm1d(out_features)

    def forward(self, x):
        return F.silu(self.norm(self.linear(x)))


def get_inputs():
    return [torch.randn(batch, in_features)]


def get_init_inputs():
    return [in_features, out_features]
