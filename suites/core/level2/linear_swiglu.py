import torch
import torch.nn as nn
import torch.nn.functional as F

batch = 3072
in_features = 2048
out_features = 5632
SMALL = {"batch": 7, "in_features": 43, "out_features": 57}


class Model(nn.Module):
    """Two linear layers of one input; the first goes through Swish and gates the second."""

    def __init__(self, in_features, out_features):
        super().__init__()
        self.gate = nn.Linear(in_features, out_features, bias=False)
        self.up = nn.Linear(in_features, out_features, bias=False)

    def forward(self, x):
        return F.silu(self.gate(x)) * self.up(x)


def get_inputs():
    return [torch.randn(batch, in_features)]


def get_init_inputs():
    return [in_features, out_features]
