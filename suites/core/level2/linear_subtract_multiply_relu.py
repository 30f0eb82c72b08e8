import torch
import torch.nn as nn

batch = 3072
in_features = 4096
out_features = 5120
SMALL = {"batch": 9, "in_features": 53, "out_features": 61}


class Model(nn.Module):
    """Linear layer, a constant subtracted, a constant factor, ReLU.

    Both constants can be folded into the weight and the bias.
    """

    def __init__(self, in_features, out_features, subtract, factor):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)
        self.subtract = subtract
        self.factor = factor

    def forward(self, x):
        return torch.relu((self.linear(x) - self.subtract) * self.factor)


def get_inputs():
    return [torch.randn(batch, in_features)]


def get_init_inputs():
    return [in_features, out_features, 0.25, 1.5]
